"""Makes as many requests at one time as the argument says, none of which is retried by the client."""

from concurrent.futures import ThreadPoolExecutor

import openai

import common

client = common.client(max_retries=0)


def ask(number):
    try:
        made = client.chat.completions.create(
            model=common.MODEL,
            messages=[{"role": "user", "content": f"Number {number}: is there room?"}],
            max_tokens=40,
        )
    except openai.APIError as error:
        return common.facts(error)
    return None if made.usage.completion_tokens == 40 else {"error": "cut short"}


count = int(common.arguments()[0])
with ThreadPoolExecutor(count) as pool:
    outcomes = list(pool.map(ask, range(count)))
errors = [outcome for outcome in outcomes if outcome]
common.tell({"succeeded": count - len(errors), "errors": errors})
