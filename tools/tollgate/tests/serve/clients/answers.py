"""Asks every interface once, without streaming."""

import common

client = common.client()

chat = client.chat.completions.create(
    model=common.MODEL, messages=common.MESSAGES, max_tokens=5
)
completion = client.completions.create(
    model=common.MODEL, prompt="Is there room for me?", max_tokens=6
)
response = client.responses.create(
    model=common.MODEL, input="Is there room for me?", max_output_tokens=7
)
# By default the client asks for base64 and decodes it.
embeddings = client.embeddings.create(model=common.MODEL, input=["one", "two"])
as_floats = client.embeddings.create(
    model=common.MODEL, input=["one", "two"], encoding_format="float"
)


def answer(made, text):
    usage = made.usage.model_dump()
    return {
        "model": made.model,
        "text": text,
        "prompt_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
        "output_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
    }


vectors = [entry.embedding for entry in embeddings.data]
common.tell(
    {
        "models": [model.id for model in client.models.list()],
        "chat": answer(chat, chat.choices[0].message.content),
        "completion": answer(completion, completion.choices[0].text),
        "response": answer(response, response.output_text),
        "embeddings": {
            "count": len(vectors),
            "length": len(vectors[0]),
            "as_floats": all(
                isinstance(number, float)
                for vector in vectors + [entry.embedding for entry in as_floats.data]
                for number in vector
            ),
        },
    }
)
