"""The caller's stream equals what vLLM sends for the caller's own body, but for id and time."""

import json
import re
from typing import Any

import httpx
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell, key_header

_ID = re.compile(r'"id":"chatcmpl-[^"]*"|"created":\d+|"id":"chatcmpl-tool-[0-9a-f]+"')
Body = dict[str, Any]
TRIES = 8

CASES: dict[str, Body] = {
    "plain": {},
    "usage": {"stream_options": {"include_usage": True}},
    "usage in every chunk": {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}
    },
    "two choices": {"n": 2, "temperature": 0.7},
    "two choices with usage": {
        "n": 2,
        "temperature": 0.7,
        "stream_options": {"include_usage": True},
    },
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "stop": {"stop": ["."]},
}


def stream(url: str, body: Body, headers: dict[str, str]) -> str:
    answer = httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text
    return _ID.sub("", answer.text)


def by_choice(text: str) -> dict[object, list[str]]:
    """Events in order within each choice: how two choices interleave is the engine's scheduling."""
    events: dict[object, list[str]] = {}
    for event in text.split("\n\n"):
        index: object = "end"
        if event.startswith("data: {"):
            choices = json.loads(
                re.sub(r"{,+|,,+", lambda m: "{" if m[0][0] == "{" else ",", event[6:])
            )
            index = choices["choices"][0]["index"] if choices["choices"] else "usage"
        events.setdefault(index, []).append(event)
    return events


@pytest.mark.parametrize("name", CASES)
def test_stream_equals_the_engines_own(cell: Cell, name: str) -> None:
    body: Body = {
        "model": TEXT_MODEL,
        "messages": [{"role": "user", "content": "Count from one to five."}],
        "max_tokens": 16,
        "temperature": 0,
        "seed": 7,
        "stream": True,
        **CASES[name],
    }
    # vLLM puts two tokens into one chunk when its own server falls behind, so what it sends for a
    # body varies from time to time: one of a few runs must be the same to the byte.
    engine = cell.engine(TEXT_MODEL)
    for _ in range(TRIES):
        direct = stream(f"{engine.url}/v1", body, key_header(engine))
        through = stream(cell.openai_url, body, {"authorization": f"Bearer {cell.key}"})
        if by_choice(through) == by_choice(direct):
            break
    assert by_choice(through) == by_choice(direct)
    if "n" not in body:
        assert through == direct
