"""Makes a request with the client's default retries, and tells what came when."""

import time

import openai

import common

responses, requests = [], []
hooks = {
    "request": [lambda request: requests.append(time.monotonic())],
    "response": [lambda response: responses.append((time.monotonic(), response))],
}
client = common.client(http_client=openai.DefaultHttpxClient(event_hooks=hooks))
client.completions.create(
    model=common.MODEL,
    prompt="Is there room for me?",
    max_tokens=1,
    extra_headers={"x-dynamo-meta-policy-class": "small"},
)
refused_at, refused = responses[0]
common.tell(
    {
        "statuses": [response.status_code for _, response in responses],
        "retry_after_ms": float(refused.headers["retry-after-ms"]),
        "pause_seconds": requests[1] - refused_at,
    }
)
