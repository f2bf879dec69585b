"""Vectors from real weights: the same numbers as the engine's own, on every surface."""

import math
from typing import Any

import openai
import pytest
from tests.engine.real_cell import VECTORS_MODEL, Cell

NUMBERS = 576
TEXTS = ["Water turns the turbine.", "The river drives the wheel.", "I have a toothache."]

Body = dict[str, Any]


def _post(cell: Cell, url: str, body: Body) -> Body:
    with cell.client() as client:
        answer = client.post(url, json=body)
    assert answer.status_code == 200, answer.text
    told: Body = answer.json()
    return told


def test_real_vectors_are_the_engines_own_on_every_surface(cell: Cell) -> None:
    body = {"model": VECTORS_MODEL, "input": TEXTS}
    own = cell.ask_engine(VECTORS_MODEL, "/v1/embeddings", body).json()
    expected = [row["embedding"] for row in own["data"]]
    assert [len(vector) for vector in expected] == [NUMBERS] * len(TEXTS)
    workers = f"{cell.workers_url}/accounts/{cell.account}/ai"
    for base in (cell.openai_url, f"{workers}/v1"):
        told = _post(cell, f"{base}/embeddings", body)
        assert [row["embedding"] for row in told["data"]] == expected
        assert told["usage"] == own["usage"]
        assert told["usage"]["prompt_tokens"] > len(TEXTS)
    run = _post(cell, f"{workers}/run/{VECTORS_MODEL}", {"text": TEXTS})
    assert run["success"] is True
    assert run["result"] == {"shape": [len(TEXTS), NUMBERS], "data": expected}


def test_the_sdk_reads_real_vectors_as_numbers_of_length_one(cell: Cell) -> None:
    with openai.OpenAI(base_url=cell.openai_url, api_key=cell.key) as client:
        answer = client.embeddings.create(model="smollm2-embeddings", input=TEXTS)
    for row in answer.data:
        assert math.hypot(*row.embedding) == pytest.approx(1.0, abs=1e-3)
    water, river, toothache = (row.embedding for row in answer.data)
    assert _likeness(water, river) > _likeness(water, toothache)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens


def _likeness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
