"""What jobs leave behind when something is slow, lost or asked for twice: nothing, and no debt."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.integration.cells.job_attempts import FLEX_PRICE
from tests.integration.cells.job_cell import JobCell, flex_request
from tests.integration.cells.limits_cell import KEY, MODEL, a_limit, account_with

from penstock import errors
from penstock.admission import AdmissionSettings, LimitBook, LimitState, release_jobs
from penstock.clock import SystemClock, new_id
from penstock.jobs.job_requests import new_job
from penstock.jobs.submission import DeskRooms, JobDesk
from penstock.puller.complete import JobCompletion
from penstock.queue import NewBatch
from penstock.queue.batch_files import FileBatches, RefusedLine
from penstock.records.account import AccountId
from penstock.records.job import BatchId, Door, JobFailure, Submission
from penstock.records.limit import Measure
from penstock.records.price import cost_nanousd
from penstock.records.usage import Usage
from penstock.serving.settings import ServingSettings
from penstock.store import ContentSeal, Store, StoreSettings
from penstock.store.kept_values import KeptValues

HELD = cost_nanousd(Usage(1000, 200, 0), FLEX_PRICE)
LARGE = b'{"choices":["%s"]}' % (b"x" * 2000)


@pytest.fixture
async def cell(store: Store, tmp_path: Path) -> AsyncIterator[JobCell]:
    made = JobCell(store, tmp_path, sweep_jobs_max=2)
    await made.objects.open()
    yield made
    await made.objects.close()
    made.worker.journal.leave()


def in_batch(account: AccountId, batch: BatchId) -> tuple[Submission, NewBatch]:
    door, deadline = Door.WORKERS_AI, 4e9
    opened = NewBatch(id=batch, account=account, key=KEY, door=door, deadline=deadline)
    return Submission(account, KEY, MODEL.id, door, deadline, batch=batch), opened


async def held(store: Store, account: AccountId) -> int:
    (state,) = await LimitBook(store, AdmissionSettings()).list(account)
    assert isinstance(state, LimitState)
    return state.leased


async def test_large_batch_is_cancelled_in_rounds(cell: JobCell, store: Store) -> None:
    account = await account_with(store, a_limit(7 * HELD, Measure.NANOUSD))
    batch = BatchId(new_id())
    submission, opened = in_batch(account, batch)
    jobs = [new_job(flex_request(account), item=item) for item in range(7)]
    await cell.desk.submit(submission, jobs, opened)
    running = await cell.claim(3)
    async with store.transaction() as transaction:
        first = await cell.queue.cancel_batch(transaction, account, batch)
        assert first is not None
        assert first.count == 2, "a round has an end"
        await release_jobs(transaction, first.released)
    assert await cell.desk.cancel_batch(account, batch) == 5
    assert await cell.desk.cancel_batch(account, batch) == 0
    assert await held(store, account) == 3 * HELD
    assert len((await cell.succeed(*running)).cancelled) == 3
    assert await held(store, account) == 0


async def test_nothing_is_added_to_a_batch_by_its_key(cell: JobCell, store: Store) -> None:
    account = await account_with(store)
    submission, opened = in_batch(account, BatchId(new_id()))
    jobs = [new_job(flex_request(account), item=item) for item in range(3)]
    first = await cell.desk.submit(submission, jobs[:2], opened)
    again = [new_job(flex_request(account, text="y" * 2000), item=item) for item in range(3)]
    with pytest.raises(errors.InvalidRequest):
        await cell.desk.submit(submission, again, opened)
    assert cell.objects_kept() == []
    fewer = await cell.desk.submit(submission, again[:1], opened)
    assert (fewer.ids, fewer.added) == (first.ids[:1], 0)
    assert len(await cell.claim(9)) == 2


async def test_result_of_a_lost_run_is_deleted(cell: JobCell, store: Store) -> None:
    account = await account_with(store)
    id = await cell.submit_one(account)
    (lost,) = await cell.claim_lapsed()
    (job,) = await cell.claim()
    done = JobCompletion(job, await cell.run(job), LARGE)
    assert (await cell.complete([done])).done == {id}
    kept = cell.objects_kept()
    assert len(kept) == 1
    # Another answer by a keeper whose lease was lost, and one that is the same to the byte.
    for answer in (LARGE + b" ", LARGE):
        late = JobCompletion(lost, await cell.run(lost), answer)
        assert (await cell.complete([late])).done == frozenset()
        assert cell.objects_kept() == kept
    # And the one that counts once more, as after a commit that was not heard of.
    assert (await cell.complete([done])).done == frozenset()
    found = await cell.desk.find(account, id)
    assert found is not None
    assert await cell.desk.result_of(found) == LARGE


class _SlowObjects:
    """Deletes slowly."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def put(self, name: str, data: bytes) -> None:
        raise AssertionError("nothing is put here")

    async def get(self, name: str) -> bytes:
        raise AssertionError("nothing is read here")

    async def seal_of(self, account: AccountId) -> ContentSeal:
        raise AssertionError("nothing is kept here")

    async def delete(self, names: Sequence[str]) -> None:
        await asyncio.sleep(1.0)
        self.deleted += names


async def test_old_jobs_go_however_slowly_their_objects_do(
    cell: JobCell, store: Store, dsn: str
) -> None:
    account = await account_with(store)
    await cell.submit_one(account)
    await cell.succeed(*await cell.claim(), result=LARGE)
    async with store.transaction() as transaction:
        await transaction.execute("update jobs set finished_at = now() - interval '1 year'")
    hasty = Store(StoreSettings(dsn=dsn, transaction_seconds=0.4))
    await hasty.open()
    objects = _SlowObjects()
    try:
        rooms = DeskRooms(hasty, cell.queue, cell.batches, KeptValues(objects, ServingSettings()))
        desk = JobDesk(rooms, AdmissionSettings(), SystemClock())
        assert await desk.delete_old() == 1
        assert await desk.delete_old() == 0
    finally:
        await hasty.close()
    assert objects.deleted == cell.objects_kept()


async def test_line_that_is_a_job_is_not_refused_as_well(cell: JobCell, store: Store) -> None:
    account = await account_with(store)
    batch = BatchId(new_id())
    submission, opened = in_batch(account, batch)
    await cell.desk.submit(submission, [new_job(flex_request(account), item=1)], opened)
    files = FileBatches()
    async with store.transaction() as transaction:
        await files.add(transaction, batch, None)
        found = await files.find(transaction, account, batch)
        assert found is not None
        lines = [RefusedLine(n, "a\0b", "batch_cancelled", "m\0", "p\0", 400) for n in range(3)]
        await files.took(transaction, found, 3, lines, 60.0)
        kept = await files.refused_lines(transaction, batch, -1, 10)
    assert [line.item for line in kept] == [0, 2]
    assert {(line.custom_id, line.message, line.param) for line in kept} == {("ab", "m", "p")}


async def test_job_fails_once_whatever_the_engine_says(cell: JobCell, store: Store) -> None:
    account = await account_with(store)
    ids = {await cell.submit_one(account), await cell.submit_one(account)}
    first, second = await cell.claim(2)
    failure = JobFailure("engine_failed", "a\0b", 502)
    done = [
        JobCompletion(first, await cell.run(first), failure=failure),
        JobCompletion(second, await cell.run(second), b'"\\u0000"'),
    ]
    assert (await cell.complete(done)).done == ids
    found = await cell.desk.find(account, first.id)
    assert found is not None
    assert found.failure == JobFailure("engine_failed", "ab", 502)
