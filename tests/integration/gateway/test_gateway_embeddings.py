"""Embeddings through a gateway: OpenAI's shape and Workers AI's, counted, billed and refused."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai, check_request_id
from tests.integration.cells.gateway_cell import CHAT, SERVED, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.metering_lines import attempts

from penstock.store import Store
from penstock.testing import ScriptedEngine
from penstock.testing.scripted_engine.embeddings_shapes import DIMENSIONS, vector_of

PATH = "/v1/embeddings"
MODEL = "@cf/test/vectors"
_ENTRY = f"""
id = "{MODEL}"
family = "embeddings"
task = "Text Embeddings"
context_tokens = 100_000
[prices]
input_nanousd_per_mtok = 600_000_000
output_nanousd_per_mtok = 3_000_000_000
[recipe]
served_name = "{SERVED}"
command = ["engine", "--port", "{{port}}"]
"""
_INPUT = 600
Body = dict[str, Any]


@pytest.fixture(scope="module")
def embedding(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with (
        cells.open({"metering.drain_seconds": 0.05}) as cell,
        ScriptedEngine(model=SERVED, runner="pooling") as engine,
    ):
        (cell.journal.parent / "catalogue" / "vectors.toml").write_text(_ENTRY)
        cell.enroll(engine.url, MODEL)
        cell.set_up(CHAT)
        yield cell, engine


@pytest.fixture
def cell(embedding: tuple[Cell, ScriptedEngine]) -> Cell:
    return embedding[0]


@pytest.fixture
def engine(embedding: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return embedding[1]


def _sent(engine: ScriptedEngine) -> Body:
    last = engine.state().last_request
    assert last is not None
    body: Body = json.loads(last["body"])
    return body


def _row(cell: Cell, request_id: str) -> Body:
    async def read(store: Store) -> list[Body]:
        return [row for row in await attempts(store) if row["request"] == request_id]

    found: list[Body] = []

    def is_there() -> bool:
        found[:] = cell.run(read)
        return bool(found)

    eventually(is_there)
    (row,) = found
    return row


def test_texts_become_vectors_in_their_order_on_both_surfaces(
    cell: Cell, engine: ScriptedEngine
) -> None:
    for path in (PATH, cell.path("v1/embeddings")):
        answer = cell.post(path, {"model": MODEL, "input": ["one", "two"]})
        assert answer.status_code == 200, answer.text
        rows = answer.json()["data"]
        assert [row["embedding"] for row in rows] == [vector_of(b"one"), vector_of(b"two")]
        assert answer.json()["usage"]["prompt_tokens"] == 2
    sent = _sent(engine)
    assert sent["model"] == SERVED
    assert sent["cache_salt"]
    assert "max_tokens" not in sent


def test_the_openai_sdk_reads_them(cell: Cell) -> None:
    with openai.OpenAI(base_url=f"{cell.gateway.url}/v1", api_key=cell.key) as client:
        # It asks for base64 by itself, and unpacks it.
        answer = client.embeddings.create(model=MODEL, input="one")
    assert answer.data[0].embedding == pytest.approx(vector_of(b"one"), abs=1e-6)
    assert answer.usage.prompt_tokens == 1


@pytest.mark.parametrize(("text", "count"), [("one", 1), (["one", "two"], 2)])
def test_workers_ai_gets_shape_and_data_in_its_envelope(
    cell: Cell, text: object, count: int
) -> None:
    answer = cell.run_model(MODEL, {"text": text})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["success"], body["errors"], body["messages"]) == (True, [], [])
    assert body["result"].keys() == {"shape", "data"}
    assert body["result"]["shape"] == [count, DIMENSIONS]
    assert body["result"]["data"][0] == vector_of(b"one")


def test_only_the_texts_are_counted_and_billed(cell: Cell) -> None:
    answer = cell.post(PATH, {"model": MODEL, "input": ["four" * 10, "four" * 5]})
    assert answer.json()["usage"]["prompt_tokens"] == 15
    assert answer.headers["x-penstock-cost-usd"] == f"{15 * _INPUT / 10**9:.9f}"
    row = _row(cell, check_request_id(answer.headers))
    assert (row["prompt_tokens"], row["output_tokens"]) == (15, 0)
    # An engine does not say what of it was cached: that is unknown, not nothing.
    assert row["cached_tokens"] is None


def test_a_failing_engine_is_told_in_the_shape_of_the_surface(cell: Cell) -> None:
    script = json.dumps({"status": 500})
    text = f"one\n@script {script}"
    answer = cell.post(PATH, {"model": MODEL, "input": text})
    assert answer.status_code >= 500
    assert answer.json().keys() == {"error"}
    assert cell.run_model(MODEL, {"text": text}).json()["success"] is False
    eventually(lambda: cell.post(PATH, {"model": MODEL, "input": "one"}).status_code == 200)


def test_what_is_wrong_is_refused_before_an_engine_is_asked(
    cell: Cell, engine: ScriptedEngine
) -> None:
    asked = engine.state().requests
    wrong: list[Body] = [{}, {"input": []}, {"input": "a", "encoding_format": "bytes"}]
    for body in wrong:
        check_openai(cell.post(PATH, {"model": MODEL, **body}), 400, "invalid_request")
    check_envelope(cell.run_model(MODEL, {"text": "a", "pooling": "cls"}), 400, 5006)
    check_envelope(cell.run_model(MODEL, {"prompt": "a"}), 400, 5006)
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "a"}]}
    assert "vectors" in check_openai(cell.chat(chat), 400, "invalid_request")
    other = cell.post(PATH, {"model": CHAT, "input": "a"})
    assert "text" in check_openai(other, 400, "invalid_request")
    assert engine.state().requests == asked
