"""Completions of a real engine: through the gateway as the engine itself would have said them."""

import re
from typing import Any

import httpx
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell

_VARYING = re.compile(r'"id":"cmpl-[^"]+"|"created":\d+')
ASKED: dict[str, Any] = {
    "model": TEXT_MODEL,
    "prompt": "A penstock feeds water to",
    "max_tokens": 12,
    "temperature": 0,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [None, {"include_usage": True}])
def test_a_real_completion_is_streamed_as_the_engine_says_it(
    cell: Cell, options: dict[str, bool] | None
) -> None:
    body = {**ASKED, "stream": True}
    if options is not None:
        body["stream_options"] = options
    own = cell.ask_engine(TEXT_MODEL, "/v1/completions", body).text
    with cell.client() as client:
        # The first stream of a replica teaches the gateway its fingerprint.
        for _ in range(2):
            ours = client.post(f"{cell.openai_url}/completions", json=body)
    assert _VARYING.sub("", ours.text) == _VARYING.sub("", own)
    assert ours.text.endswith("data: [DONE]\n\n")


def test_a_real_engine_refuses_calls_without_its_key(cell: Cell) -> None:
    url = f"{cell.engine(TEXT_MODEL).url}/v1/completions"
    for headers in ({}, {"authorization": "Bearer another"}):
        assert httpx.post(url, json=ASKED, headers=headers, timeout=60).status_code == 401
    assert cell.ask_engine(TEXT_MODEL, "/v1/completions", ASKED).status_code == 200


@pytest.mark.timeout(600)
def test_several_real_prompts_are_answered_and_counted_together(cell: Cell) -> None:
    body = {**ASKED, "prompt": [ASKED["prompt"], "The dam"]}
    with cell.client() as client:
        answer = client.post(f"{cell.openai_url}/completions", json=body).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert all(choice["text"] for choice in answer["choices"])
    assert answer["usage"]["completion_tokens"] <= 24
