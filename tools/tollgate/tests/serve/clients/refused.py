"""Makes a request that is refused, in the way that the argument names."""

import openai

import common

WAYS = {
    # The class is full.
    "limit": ({"max_retries": 0}, {"x-dynamo-meta-policy-class": "small"}, common.MODEL),
    # With the default retries, none of which may come.
    "deadline": ({}, {"x-tollgate-deadline-ms": "300"}, common.MODEL),
    "model": ({}, {}, "no-such-model"),
}
options, headers, model = WAYS[common.arguments()[0]]
try:
    common.client(**options).chat.completions.create(
        model=model, messages=common.MESSAGES, max_tokens=1, extra_headers=headers
    )
except openai.APIError as error:
    common.tell(common.facts(error))
