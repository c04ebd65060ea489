"""Asks for streams that break off by the faults that the arguments name."""

import openai

import common

client = common.client()


def chat(headers):
    return client.chat.completions.create(
        model=common.MODEL,
        messages=common.MESSAGES,
        max_tokens=8,
        stream=True,
        extra_headers=headers,
    )


def completion(headers):
    return client.completions.create(
        model=common.MODEL,
        prompt="Is there room for me?",
        max_tokens=8,
        stream=True,
        extra_headers=headers,
    )


def response(headers):
    return client.responses.create(
        model=common.MODEL,
        input="Is there room for me?",
        max_output_tokens=8,
        stream=True,
        extra_headers=headers,
    )


def outcome(ask, fault):
    """How a stream ends: by what the client raises, or by an event of the kind `error`."""
    parts = 0
    try:
        for part in ask({"x-mock-fault": fault}):
            if getattr(part, "type", None) == "error":
                return {"error": "event", "code": part.code, "parts": parts}
            parts += 1
    except openai.APIError as error:
        return {**common.facts(error), "parts": parts}
    return {"error": None, "parts": parts}


common.tell(
    {
        ask.__name__: {fault: outcome(ask, fault) for fault in common.arguments()}
        for ask in (chat, completion, response)
    }
)
