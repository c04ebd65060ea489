"""What every script needs: a client of the router that the first argument names, and a way to tell."""

import json
import sys

import openai

MODEL = "m"
MESSAGES = [{"role": "user", "content": "Is there room for me?"}]


def client(**options):
    """A client of the router."""
    return openai.OpenAI(base_url=sys.argv[1], api_key="none", timeout=30, **options)


def arguments():
    """What follows the router's address."""
    return sys.argv[2:]


def tell(seen):
    """Prints what was seen, as one line."""
    print(json.dumps(seen), flush=True)


def facts(error):
    """What an error says."""
    body = error.body if isinstance(error.body, dict) else {}
    response = getattr(error, "response", None)
    return {
        "error": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": error.code,
        "type": error.type,
        "param": error.param,
        "details": body.get("details"),
        "retry_after_ms": response.headers.get("retry-after-ms") if response else None,
    }
