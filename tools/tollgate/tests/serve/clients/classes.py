"""Asks in the classes that the arguments name, and tells which ones the answers name."""

import common

client = common.client()
answers = [
    client.chat.completions.with_raw_response.create(
        model=common.MODEL,
        messages=common.MESSAGES,
        max_tokens=1,
        extra_headers={"x-dynamo-meta-policy-class": name},
    )
    for name in common.arguments()
]
common.tell(
    {
        "classes": [answer.headers.get("x-tollgate-class") for answer in answers],
        "workers": [answer.headers.get("x-tollgate-worker") for answer in answers],
    }
)
