"""Vectors from real weights: the same numbers as the engine's own, on every surface."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from penstock.catalogue.models import BUILTIN_FOLDER

MODEL = "@local/penstock/smollm2-vectors"
NUMBERS = 576
TEXTS = ["Water turns the turbine.", "The river drives the wheel.", "I have a toothache."]
# Of vLLM's own flags, what makes vectors of a model that was made for text.
_CHANGES = {
    TEXT_MODEL: MODEL,
    'aliases = ["smollm2"]': 'aliases = ["vectors"]',
    'family = "openai"': 'family = "embeddings"',
    'capabilities = ["tools", "structured_output", "async_queue"]': "capabilities = []",
    '"--tool-call-parser", "hermes", "--enable-auto-tool-choice",': (
        '"--runner", "pooling", "--convert", "embed",'
    ),
}

Body = dict[str, Any]


@pytest.fixture(scope="module")
def vectors_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with _running(tmp_path_factory.mktemp("vectors")) as started:
        yield started


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Cell]:
    entry = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    for before, after in _CHANGES.items():
        assert before in entry
        entry = entry.replace(before, after)
    catalogue = folder / "catalogue"
    catalogue.mkdir()
    (catalogue / "vectors.toml").write_text(entry)
    (folder / "penstock.toml").write_text(f'[catalogue]\nfolder = "{catalogue}"\n')
    with running_up(folder, "--model", "vectors") as started:
        yield started


def _post(cell: Cell, url: str, body: Body) -> Body:
    with cell.client() as client:
        answer = client.post(url, json=body)
    assert answer.status_code == 200, answer.text
    told: Body = answer.json()
    return told


@pytest.mark.timeout(600)
def test_real_vectors_are_the_engines_own_on_every_surface(vectors_cell: Cell) -> None:
    cell = vectors_cell
    body = {"model": MODEL, "input": TEXTS}
    own = httpx.post(f"{cell.engine(MODEL).url}/v1/embeddings", json=body, timeout=120).json()
    expected = [row["embedding"] for row in own["data"]]
    assert [len(vector) for vector in expected] == [NUMBERS] * len(TEXTS)
    workers = f"{cell.workers_url}/accounts/{cell.account}/ai"
    for base in (cell.openai_url, f"{workers}/v1"):
        told = _post(cell, f"{base}/embeddings", body)
        assert [row["embedding"] for row in told["data"]] == expected
        assert told["usage"] == own["usage"]
        assert told["usage"]["prompt_tokens"] > len(TEXTS)
    run = _post(cell, f"{workers}/run/{MODEL}", {"text": TEXTS})
    assert run["success"] is True
    assert run["result"] == {"shape": [len(TEXTS), NUMBERS], "data": expected}


@pytest.mark.timeout(600)
def test_the_sdk_reads_real_vectors_as_numbers_of_length_one(vectors_cell: Cell) -> None:
    with openai.OpenAI(base_url=vectors_cell.openai_url, api_key=vectors_cell.key) as client:
        answer = client.embeddings.create(model="vectors", input=TEXTS)
    for row in answer.data:
        assert math.hypot(*row.embedding) == pytest.approx(1.0, abs=1e-3)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens
