"""`/v1/batches` with openai's SDK: from a file of requests to two files of answers."""

from collections.abc import Iterator

import openai
import pytest
from tests.integration.cells.batch_cell import (
    FAILS,
    QUICK,
    line,
    lines_in,
    run_jobs,
    sdk,
    start_batch,
    wait_for,
)
from tests.integration.cells.gateway_cell import CHAT, PAIR, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually

from penstock.queue import Queue, QueueSettings
from penstock.store import Store


@pytest.fixture(scope="module")
def batch_cell(cells: CellFactory) -> Iterator[Cell]:
    settings = {**QUICK, "ingress.batch_lines_max": 5000, "ingress.batch_jobs_at_once": 4}
    with cells.open(settings) as cell:
        cell.set_up(CHAT, PAIR)
        yield cell


def test_a_batch_is_answered_line_by_line(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    lines = [line(f"line-{number}", f"text {number}") for number in range(9)]
    lines += [line("other-model", model=PAIR), line("failing", FAILS)]
    batch = start_batch(client, *lines, metadata={"for": "a test"})
    assert batch.object == "batch"
    assert batch.metadata == {"for": "a test"}
    assert batch.id.startswith("batch_")
    read = wait_for(client, batch, "in_progress")
    assert read.request_counts is not None
    assert read.request_counts.total == 11
    assert run_jobs(batch_cell) == 11
    done = wait_for(client, batch, "completed")
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 11, "completed": 10, "failed": 1}
    assert None not in (done.in_progress_at, done.finalizing_at, done.completed_at)
    answers = {each["custom_id"]: each for each in lines_in(client, done.output_file_id)}
    assert len(answers) == 10
    answer = answers["line-3"]
    assert answer["error"] is None
    assert answer["response"]["status_code"] == 200
    assert answer["response"]["body"]["choices"][0]["message"]["content"] == "re: text 3"
    assert answer["response"]["body"]["id"] == answer["response"]["request_id"]
    (failed,) = lines_in(client, done.error_file_id)
    assert failed["custom_id"] == "failing"
    assert failed["response"]["status_code"] == 502
    assert failed["response"]["body"]["error"]["code"] == "engine_failed"
    assert done.output_file_id is not None
    assert client.files.retrieve(done.output_file_id).purpose == "batch_output"
    assert _events(batch_cell, done.id) == ["batch.completed"]


def test_a_bad_line_fails_alone(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    batch = start_batch(
        client,
        line("good"),
        "this is no JSON",
        line("unknown-model", model="@cf/test/unknown"),
        line("good"),
        "",
        line("not-async", model="@cf/test/plain"),
        line("other-url", url="/v1/embeddings"),
        line("no-body", body=7),
        line("streams", body={"model": CHAT, "messages": [], "stream": True}),
        line("last"),
    )
    wait_for(client, batch, "in_progress")
    assert run_jobs(batch_cell) == 2
    done = wait_for(client, batch, "completed")
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 9, "completed": 2, "failed": 7}
    good = [each["custom_id"] for each in lines_in(client, done.output_file_id)]
    assert good == ["good", "last"]
    bad = lines_in(client, done.error_file_id)
    assert [each["custom_id"] for each in bad] == [
        None,
        "unknown-model",
        "good",
        "not-async",
        "other-url",
        "no-body",
        "streams",
    ]
    codes = [each["response"]["body"]["error"]["code"] for each in bad]
    assert codes[1] == "model_not_found"
    assert codes[3] == "missing_capability"
    assert {*codes[:1], codes[2], *codes[4:]} == {"invalid_request"}
    assert "earlier line" in bad[2]["response"]["body"]["error"]["message"]
    assert bad[1]["response"]["status_code"] == 404


def test_a_batch_without_a_single_good_line_completes(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    done = wait_for(client, start_batch(client, "1", "2"), "completed")
    assert done.output_file_id is None
    assert len(lines_in(client, done.error_file_id)) == 2


def test_a_cancelled_batch_keeps_what_was_done(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    batch = start_batch(client, *(line(f"line-{number}") for number in range(40)))
    wait_for(client, batch, "in_progress")
    assert run_jobs(batch_cell, count=10) == 10
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    done = wait_for(client, batch, "cancelled")
    assert done.cancelled_at is not None
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 40, "completed": 10, "failed": 30}
    assert len(lines_in(client, done.output_file_id)) == 10
    errors = [each["error"]["code"] for each in lines_in(client, done.error_file_id)]
    assert errors == ["batch_cancelled"] * 30
    assert run_jobs(batch_cell) == 0
    assert client.batches.cancel(batch.id).status == "cancelled"
    assert _events(batch_cell, done.id) == ["batch.cancelled"]


def test_a_batch_that_is_cancelled_while_it_is_read_ends(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    batch = start_batch(client, *(line(f"line-{number}") for number in range(3000)))
    eventually(lambda: bool(_lines_read(batch_cell)))
    client.batches.cancel(batch.id)
    done = wait_for(client, batch, "cancelled", seconds=40)
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 3000, "completed": 0, "failed": 3000}
    assert run_jobs(batch_cell) == 0


def test_what_is_left_after_the_deadline_has_expired(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    batch = start_batch(client, *(line(f"line-{number}") for number in range(6)))
    wait_for(client, batch, "in_progress")
    assert run_jobs(batch_cell, count=2) == 2
    batch_cell.run(_expire)
    done = wait_for(client, batch, "expired")
    assert done.expired_at is not None
    assert len(lines_in(client, done.output_file_id)) == 2
    errors = [each["error"]["code"] for each in lines_in(client, done.error_file_id)]
    assert errors == ["batch_expired"] * 4


def test_a_file_that_cannot_be_a_batch_fails_it(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    long = wait_for(client, start_batch(client, *["{}"] * 5001), "failed")
    assert long.errors is not None
    assert long.errors.data is not None
    assert "at most 5000" in (long.errors.data[0].message or "")
    assert long.failed_at is not None
    empty = wait_for(client, start_batch(client), "failed")
    assert empty.errors is not None
    assert _events(batch_cell, empty.id) == ["batch.failed"]


def test_a_list_of_batches_goes_page_by_page(batch_cell: Cell) -> None:
    _, _, key = batch_cell.add_account("lists")
    client = sdk(batch_cell, key)
    made = [start_batch(client, "1").id for _ in range(5)]
    assert [batch.id for batch in client.batches.list(limit=2)] == made[::-1]


def test_an_account_sees_no_batch_of_another(batch_cell: Cell) -> None:
    batch = start_batch(sdk(batch_cell), line("mine"))
    _, _, key = batch_cell.add_account("other")
    other = sdk(batch_cell, key)
    assert list(other.batches.list()) == []
    for refused in (other.batches.retrieve, other.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            refused(batch.id)
    sdk(batch_cell).batches.cancel(batch.id)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"input_file_id": None}, "input_file_id"),
    ],
)
def test_a_batch_that_is_asked_for_wrongly_is_refused(
    batch_cell: Cell, fields: dict[str, object], why: str
) -> None:
    good = {"input_file_id": "x", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answer = batch_cell.post("/v1/batches", {**good, **fields})
    assert answer.status_code == 400
    assert why in answer.json()["error"]["message"]


def test_a_batch_that_is_asked_for_twice_by_one_key_is_one(batch_cell: Cell) -> None:
    client = sdk(batch_cell)
    once = {"Idempotency-Key": "the same"}
    first = start_batch(client, line("a"), extra_headers=once)
    assert start_batch(client, line("a"), line("b"), extra_headers=once).id == first.id
    assert start_batch(client, line("a"), extra_headers={"Idempotency-Key": "x"}).id != first.id
    read = wait_for(client, first, "in_progress")
    assert read.request_counts is not None
    assert read.request_counts.total == 1
    client.batches.cancel(first.id)
    wait_for(client, first, "cancelled")
    assert start_batch(client, line("a"), extra_headers=once).id == first.id


def _events(cell: Cell, batch: str) -> list[str]:
    async def read(store: Store) -> list[str]:
        async with store.transaction() as tx:
            rows = await tx.fetch("select type from outbox where data ->> 'id' = %s", (batch,))
        return [row[0] for row in rows]

    return cell.run(read)


def _lines_read(cell: Cell) -> int:
    async def read(store: Store) -> int:
        async with store.transaction() as tx:
            row = await tx.fetch_one(
                "select max(lines_read) from file_batches where outcome is null"
            )
        return int(row[0] or 0) if row else 0

    return cell.run(read)


async def _expire(store: Store) -> None:
    """As if the day was over: control would find these by their deadline."""
    async with store.transaction() as tx:
        await tx.execute("update jobs set deadline = now() - interval '1 s' where state = 'queued'")
    async with store.transaction() as tx:
        await Queue(QueueSettings()).sweep(tx)
