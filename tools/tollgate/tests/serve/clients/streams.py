"""Asks every interface that streams for a stream."""

import common

client = common.client()


def chat(**options):
    parts, seen = 0, {"finish_reason": None, "usage": None}
    for chunk in client.chat.completions.create(
        model=common.MODEL, messages=common.MESSAGES, max_tokens=8, stream=True, **options
    ):
        for choice in chunk.choices:
            parts += bool(choice.delta.content)
            seen["finish_reason"] = choice.finish_reason or seen["finish_reason"]
        if chunk.usage:
            seen["usage"] = chunk.usage.completion_tokens
            seen["choices_of_usage"] = len(chunk.choices)
    return {"parts": parts, **seen}


def completion():
    chunks = client.completions.create(
        model=common.MODEL, prompt="Is there room for me?", max_tokens=9, stream=True
    )
    return {"parts": sum(bool(chunk.choices[0].text) for chunk in chunks)}


def response():
    events = client.responses.create(
        model=common.MODEL, input="Is there room for me?", max_output_tokens=10, stream=True
    )
    kinds = [event.type for event in events]
    return {"parts": kinds.count("response.output_text.delta"), "last": kinds[-1]}


common.tell(
    {
        "chat": chat(),
        "chat_with_usage": chat(stream_options={"include_usage": True}),
        "completion": completion(),
        "response": response(),
    }
)
