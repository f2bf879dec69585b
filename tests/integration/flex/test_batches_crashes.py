"""Batches while workers die over them, queues are full and keys are revoked."""

import json
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.integration.cells.batch_cell import (
    QUICK,
    line,
    lines_in,
    run_jobs,
    sdk,
    start_batch,
    wait_for,
)
from tests.integration.cells.cell_key import key_file, sealed_objects
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import Settings, eventually

from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook
from penstock.queue import Claim, Queue, QueueSettings
from penstock.queue.files import Files
from penstock.records.job import JobEnd
from penstock.records.model import ModelId
from penstock.store import Store, StoreSettings
from penstock.testing.clear_objects import clear_objects


def test_every_line_is_one_job_when_a_worker_is_killed_over_it(cells: CellFactory) -> None:
    count = 1500
    # Two lines at a time, so that it is slow enough to be killed on the way.
    with cells.open({**QUICK, "ingress.batch_jobs_at_once": 2}) as cell:
        cell.set_up(CHAT)
        batch = start_batch(sdk(cell), *(line(f"line-{number}") for number in range(count)))
        for least in (1, 300, 800):
            eventually(partial(_has_read, cell, least), 30)
            os.kill(cell.gateway.pid, signal.SIGKILL)
            cell.gateway.wait()
            assert _number(cell, _LINES_READ) < count
            cell.gateway.start()
        client = sdk(cell)
        wait_for(client, batch, "in_progress", seconds=40)
        assert _number(cell, "select count(distinct item) from jobs") == count
        assert _number(cell, "select count(*) from jobs") == count
        assert run_jobs(cell) == count
        done = wait_for(client, batch, "completed")
        answered = [each["custom_id"] for each in lines_in(client, done.output_file_id)]
        assert answered == [f"line-{number}" for number in range(count)]
        assert done.error_file_id is None


def test_answers_are_written_once_when_a_worker_is_killed_over_them(cells: CellFactory) -> None:
    count = 2000
    with cells.open({**QUICK}) as cell:
        cell.set_up(CHAT)
        batch = start_batch(sdk(cell), *(line(f"line-{number}") for number in range(count)))
        wait_for(sdk(cell), batch, "in_progress")
        assert run_jobs(cell) == count
        eventually(lambda: _number(cell, _BEGUN) == 1)
        os.kill(cell.gateway.pid, signal.SIGKILL)
        cell.gateway.wait()
        cell.gateway.start()
        client = sdk(cell)
        done = wait_for(client, batch, "completed")
        assert len(lines_in(client, done.output_file_id)) == count
        assert _number(cell, "select count(*) from outbox where type = 'batch.completed'") == 1
        assert len(list(client.files.list(purpose="batch_output"))) == 1


def test_a_batch_larger_than_the_queue_goes_in_bit_by_bit(cells: CellFactory) -> None:
    with cells.open({**QUICK, "queue.open_jobs_max": 10}) as cell:
        cell.set_up(CHAT)
        client = sdk(cell)
        batch = start_batch(client, *(line(f"line-{number}") for number in range(25)))
        ran = 0

        def is_done() -> bool:
            nonlocal ran
            ran += run_jobs(cell)
            return client.batches.retrieve(batch.id).status == "completed"

        eventually(is_done, 20)
        assert ran == 25
        done = client.batches.retrieve(batch.id)
        assert len(lines_in(client, done.output_file_id)) == 25


def test_what_ran_is_answered_when_the_rest_of_the_file_is_gone(cells: CellFactory) -> None:
    with cells.open({**QUICK, "queue.open_jobs_max": 10}) as cell:
        cell.set_up(CHAT)
        client = sdk(cell)
        batch = start_batch(client, *(line(f"line-{number}") for number in range(25)))
        eventually(lambda: _number(cell, "select count(*) from jobs") == 10)
        client.files.delete(batch.input_file_id)
        eventually(lambda: _number(cell, "select count(*) from refused_lines") == 1)
        assert run_jobs(cell) == 10
        done = wait_for(client, batch, "completed")
        assert len(lines_in(client, done.output_file_id)) == 10
        (rest,) = lines_in(client, done.error_file_id)
        assert rest["response"]["status_code"] == 404


def test_a_batch_of_a_revoked_key_fails(cells: CellFactory) -> None:
    with cells.open({**QUICK, "ingress.batch_poll_seconds": 2.0}) as cell:
        cell.set_up(CHAT)
        _, key_id, secret = cell.add_account("leaving")
        client = sdk(cell, secret)
        batch = start_batch(client, line("one"))
        cell.run(lambda store: KeyBook(store).revoke(key_id))
        eventually(
            lambda: _number(cell, "select count(*) from file_batches where outcome = 'failed'") == 1
        )
        assert _number(cell, "select count(*) from jobs") == 0
        assert batch.status == "validating"


def test_large_requests_and_answers_go_through_objects(cells: CellFactory, tmp_path: Path) -> None:
    settings = StoreSettings(
        objects_url=f"file:{tmp_path}/objects", cell_key_file=key_file(tmp_path)
    )
    places: Settings = {
        "store.objects_url": settings.objects_url,
        "store.cell_key_file": settings.cell_key_file,
    }
    with cells.open({**QUICK, **places}) as cell:
        cell.set_up(CHAT)
        client = sdk(cell)
        text = "much " * 100_000
        batch = start_batch(client, line("large", text), line("small"))
        wait_for(client, batch, "in_progress")

        async def run_large(store: Store) -> None:
            objects, queue = sealed_objects(store, settings), Queue(QueueSettings())
            await objects.open()
            async with store.transaction() as tx:
                jobs = await queue.claim(tx, Claim(ModelId(CHAT), 2, "test", 60))
                large, small = sorted(jobs, key=lambda job: not job.payload_object)
                asked = json.loads(await objects.get(large.payload_object))
                assert asked["messages"][0]["content"] == text
                name = f"{large.account}/{large.id}/answer"
                await objects.put(name, json.dumps({"text": text}).encode())
                ends = [
                    JobEnd(large.id, large.epoch, result_object=name),
                    JobEnd(small.id, small.epoch, result=b"{}"),
                ]
                await queue.finish(tx, ends)

        cell.run(run_large)
        done = wait_for(client, batch, "completed")
        first, second = lines_in(client, done.output_file_id)
        assert first["response"]["body"] == {"text": text}
        assert second["response"]["body"] == {}


async def test_files_whose_time_is_over_are_dropped_with_their_objects(
    store: Store, tmp_path: Path
) -> None:
    objects = clear_objects(StoreSettings(objects_url=f"file:{tmp_path}"))
    await objects.open()
    files = Files(store, objects, SystemClock())
    account = (await AccountBook(store).create("first")).id
    kept, dropped = [await _upload(files, account, seconds) for seconds in (3600.0, 0.0)]
    assert await files.drop_expired() == 1
    assert await files.drop_expired() == 0
    assert (await files.find(account, kept)).bytes == 5
    assert _folders(tmp_path) == [kept]
    assert dropped != kept


def _folders(root: Path) -> list[str]:
    return [path.parent.name for path in root.rglob("content")]


async def _upload(files: Files, account: Any, seconds: float) -> str:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a\nb\nc"

    received = await files.receive(account, "in.jsonl", chunks())
    assert received.lines == 3
    return (await files.accept(received, seconds)).id


def test_a_large_batch_is_read_and_answered_in_bounded_memory(cells: CellFactory) -> None:
    """10,000 lines of 4 KB take hardly more than 2,000 of them do."""
    with cells.open(QUICK) as cell:
        cell.set_up(CHAT)
        assert _through(cell, 2000) > 8 * 10**6
        before = _resident_bytes(cell)
        size = _through(cell, 10_000)
        grown = _resident_bytes(cell) - before
        assert size > 40 * 10**6
        assert grown < 20 * 2**20, f"{grown >> 20} MiB for {size >> 20} MiB of answers"


def _through(cell: Cell, count: int) -> int:
    """A batch of so many lines, answered and read; how many bytes its answers are."""
    client, text = sdk(cell), "word " * 800
    batch = start_batch(client, *(line(f"line-{number}", text) for number in range(count)))
    wait_for(client, batch, "in_progress", seconds=40)
    assert run_jobs(cell, count) == count
    done = wait_for(client, batch, "completed", seconds=40)
    with client.files.with_streaming_response.content(str(done.output_file_id)) as answer:
        return sum(len(piece) for piece in answer.iter_bytes())


_LINES_READ = "select coalesce(max(lines_read), 0) from file_batches"
_BEGUN = "select count(*) from file_batches where finalizing_at is not null"


def _has_read(cell: Cell, lines: int) -> bool:
    return _number(cell, _LINES_READ) >= lines


def _number(cell: Cell, question: Any) -> int:
    async def read(store: Store) -> int:
        async with store.transaction() as tx:
            row = await tx.fetch_one(question)
        assert row is not None
        return int(row[0])

    return cell.run(read)


def _resident_bytes(cell: Cell) -> int:
    """The most it has held so far."""
    status = Path(f"/proc/{cell.gateway.pid}/status").read_text()
    (peak,) = [text for text in status.splitlines() if text.startswith("VmHWM")]
    return int(peak.split()[1]) * 1024
