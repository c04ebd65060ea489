"""Closes a long stream after three parts, and lives on."""

import time

import common

client = common.client()
stream = client.chat.completions.create(
    model=common.MODEL, messages=common.MESSAGES, max_tokens=100_000, stream=True
)
parts = 0
for chunk in stream:
    parts += bool(chunk.choices[0].delta.content)
    if parts == 3:
        break
stream.close()
common.tell({"parts": parts})
time.sleep(120)
