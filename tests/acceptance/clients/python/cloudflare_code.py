"""Cloudflare's SDK lets a model of the Responses family run code, on both of its addresses."""

import json
from typing import Any

from cloudflare import Cloudflare
from tests.acceptance.clients.python.given import ACCOUNT, KEY, MODEL, PROMPT, URL, answer

client = Cloudflare(api_token=KEY, base_url=f"{URL}/client/v4", max_retries=0)
ASKED: dict[str, Any] = {
    "input": PROMPT,
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    "include": ["code_interpreter_call.outputs"],
}


def run() -> object:
    return client.ai.run(MODEL, account_id=ACCOUNT, extra_body=ASKED)


def stream() -> object:
    """The events of `/ai/run`, in order."""
    with client.ai.with_streaming_response.run(
        MODEL, account_id=ACCOUNT, extra_body={**ASKED, "stream": True}
    ) as answering:
        data = [line.removeprefix("data: ") for line in answering.iter_lines()]
    return [json.loads(each) for each in data if each.startswith("{")]


def responses() -> object:
    path = f"/accounts/{ACCOUNT}/ai/v1/responses"
    body = {"model": MODEL, **ASKED}
    return client.post(path, cast_to=object, body=body)


if __name__ == "__main__":
    answer({"run": run, "stream": stream, "responses": responses})
