"""The openai SDK's files and batches: many requests by one file, at half the price."""

import json
import time

from openai import OpenAI
from tests.acceptance.clients.python.given import KEY, MODEL, TURNS, URL, answer

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY)


def batch() -> object:
    lines = [
        {
            "custom_id": words,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": [{"role": "user", "content": words}]},
        }
        for words in TURNS
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    file = client.files.create(file=("questions.jsonl", text.encode()), purpose="batch")
    made = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    ended = time.monotonic() + 60
    while made.status != "completed" and time.monotonic() < ended:
        time.sleep(0.2)
        made = client.batches.retrieve(made.id)
    assert made.output_file_id is not None, made.status
    answers = [json.loads(line) for line in client.files.content(made.output_file_id).iter_lines()]
    return {
        "status": made.status,
        "answered": sorted(each["custom_id"] for each in answers),
        "statuses": [each["response"]["status_code"] for each in answers],
        "usage": [each["response"]["body"]["usage"]["completion_tokens"] for each in answers],
    }


if __name__ == "__main__":
    answer({"batch": batch})
