"""Jobs with their money and their large values, from the desk to the ledger, on a real Postgres."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.job_attempts import FLEX_PRICE
from tests.integration.cells.job_cell import ANSWER, FAILURE, USED, JobCell, flex_request
from tests.integration.cells.limits_cell import KEY, MODEL, a_limit, account_with, eventually
from tests.integration.cells.metering_lines import SUMS, added_up, attempts, hours, spent

from penstock import errors
from penstock.admission import AdmissionSettings, LimitBook, LimitState
from penstock.clock import new_id
from penstock.jobs.job_requests import new_job
from penstock.puller.complete import JobCompletion
from penstock.queue import NewBatch
from penstock.records.account import AccountId
from penstock.records.job import BatchId, Door, JobId, JobState, Submission
from penstock.records.limit import Limit, Measure
from penstock.records.price import cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store

HELD = cost_nanousd(Usage(1000, 200, 0), FLEX_PRICE)
COST = cost_nanousd(USED, FLEX_PRICE)
LARGE = "x" * 2000


@pytest.fixture
async def cell(store: Store, tmp_path: Path) -> AsyncIterator[JobCell]:
    made = JobCell(store, tmp_path)
    await made.objects.open()
    yield made
    await made.objects.close()
    made.worker.journal.leave()


def budget(jobs: int) -> Limit:
    """Enough for so many jobs."""
    return a_limit(jobs * HELD, Measure.NANOUSD)


async def stands(store: Store, account: AccountId) -> tuple[int, int]:
    """What is booked and what is held of the account's one limit."""
    (state,) = await LimitBook(store, AdmissionSettings()).list(account)
    assert isinstance(state, LimitState)
    return state.spent, state.leased


async def charged(store: Store) -> list[tuple[int, int, str]]:
    rows = await attempts(store)
    return [(row["attempt"], row["charge_nanousd"], row["charge_reason"]) for row in rows]


async def test_job_is_paid_for_once_it_is_done(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(2))
    id = await cell.submit_one(account, workflow="w")
    assert await stands(store, account) == (0, HELD)
    (job,) = await cell.claim()
    assert job.id == id
    payload = await cell.desk.payload_of(job)
    assert payload == b'{"messages":[{"role":"user","content":"hi"}],"temperature":0.5}'
    finished = await cell.succeed(job)
    assert finished.done == {id}
    found = await cell.desk.find(account, id)
    assert found is not None
    assert (found.state, found.usage, found.charge_nanousd) == (JobState.SUCCEEDED, USED, COST)
    assert await cell.desk.result_of(found) == ANSWER
    assert await stands(store, account) == (COST, 0)
    await cell.drain()
    assert await charged(store) == [(1, COST, "")]
    (hour,) = await hours(store)
    assert (hour["charge_nanousd"], hour["tier"], hour["workflow"]) == (COST, "flex", "w")


async def test_budget_refuses_all_jobs_of_a_submission_or_none(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(2))
    await cell.submit_one(account)
    jobs = [new_job(flex_request(account, text=LARGE)) for _ in range(2)]
    with pytest.raises(errors.BudgetSpent, match="leaves"):
        await cell.submit(account, *jobs)
    assert await stands(store, account) == (0, HELD)
    assert len(await cell.claim(10)) == 1
    assert cell.objects_kept() == [], "nothing is left of what was uploaded"
    await cell.submit(account, jobs[0])
    assert len(cell.objects_kept()) == 1


async def test_replay_adds_no_job_and_holds_no_more(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(1))
    ids: set[JobId] = set()
    for _ in range(3):
        job = new_job(flex_request(account, text=LARGE), idempotency_key="once")
        ids.update((await cell.submit(account, job)).ids)
    assert len(ids) == 1
    assert await stands(store, account) == (0, HELD)
    (claimed,) = await cell.claim(10)
    assert cell.objects_kept() == [claimed.payload_object]
    assert LARGE.encode() in await cell.desk.payload_of(claimed)


async def test_job_submitted_again_under_its_own_id_keeps_its_payload(
    cell: JobCell, store: Store
) -> None:
    account = await account_with(store)
    job = new_job(flex_request(account, text=LARGE), idempotency_key="k")
    assert (await cell.submit(account, job)).added == 1
    assert (await cell.submit(account, job)).added == 0
    (claimed,) = await cell.claim(10)
    assert LARGE.encode() in await cell.desk.payload_of(claimed)


async def test_kill_between_upload_and_commit_leaves_no_job(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(1))
    job = new_job(flex_request(account, text=LARGE))
    async with store.transaction() as blocking:
        # The submission waits here, its payload uploaded.
        await blocking.execute("lock table jobs in exclusive mode")
        submitting = asyncio.ensure_future(cell.submit(account, job))
        await eventually(lambda: bool(cell.objects_kept()))
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
    assert await cell.claim() == []
    assert await stands(store, account) == (0, 0)
    await cell.submit(account, job)
    (claimed,) = await cell.claim()
    assert LARGE.encode() in await cell.desk.payload_of(claimed)


async def test_large_result_is_kept_apart_and_deleted_with_its_job(
    cell: JobCell, store: Store
) -> None:
    account = await account_with(store)
    id = await cell.submit_one(account, text=LARGE)
    result = b'{"choices":[%s]}' % LARGE.encode()
    await cell.succeed(*await cell.claim(), result=result)
    found = await cell.desk.find(account, id)
    assert found is not None
    assert found.result_object.startswith(f"{account}/{id}/")
    assert (found.result, await cell.desk.result_of(found)) == (b"", result)
    assert len(cell.objects_kept()) == 2
    assert await cell.desk.delete_old() == 0
    async with store.transaction() as transaction:
        await transaction.execute("update jobs set finished_at = now() - interval '1 year'")
    assert await cell.desk.delete_old() == 1
    assert cell.objects_kept() == []
    assert await cell.desk.find(account, id) is None


@pytest.mark.parametrize("is_late_first", [True, False])
async def test_of_two_who_finish_a_job_only_the_one_that_holds_it_bills(
    cell: JobCell, store: Store, is_late_first: bool
) -> None:
    account = await account_with(store, budget(1))
    id = await cell.submit_one(account)
    (late,) = await cell.claim_lapsed()
    (present,) = await cell.claim()
    assert (late.id, late.epoch, present.epoch) == (id, 1, 2)
    order = (late, present) if is_late_first else (present, late)
    ends = [(await cell.succeed(job)).done for job in order]
    assert ends == ([set(), {id}] if is_late_first else [{id}, set()])
    await cell.drain()
    assert await charged(store) == [(1, 0, "job"), (2, COST, "")]
    assert await stands(store, account) == (COST, 0)
    (hour,) = await hours(store)
    assert (hour["charge_nanousd"], hour["attempts"], hour["requests"]) == (COST, 2, 1)


async def test_completion_whose_answer_was_lost_may_be_said_again(
    cell: JobCell, store: Store
) -> None:
    account = await account_with(store, budget(1))
    await cell.submit_one(account)
    (job,) = await cell.claim()
    completion = JobCompletion(job, await cell.run(job), ANSWER)
    assert (await cell.complete([completion])).done == {job.id}
    again = await cell.complete([completion])
    assert not again.done | again.cancelled
    await cell.drain()
    assert await charged(store) == [(1, COST, "")]
    assert await stands(store, account) == (COST, 0)


async def test_failed_job_costs_nothing_and_holds_nothing(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(1))
    id = await cell.submit_one(account)
    assert (await cell.fail(*await cell.claim())).done == {id}
    found = await cell.desk.find(account, id)
    assert found is not None
    assert (found.state, found.failure, found.charge_nanousd) == (JobState.FAILED, FAILURE, 0)
    await cell.drain()
    assert await charged(store) == [(1, 0, "job")]
    assert await stands(store, account) == (0, 0)


async def test_job_cancelled_while_it_runs_costs_nothing(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(2))
    id = await cell.submit_one(account)
    waiting = await cell.submit_one(account)
    (job,) = await cell.claim()
    running = await cell.desk.cancel(account, id)
    assert running is not None
    assert (running.state, running.is_cancelling) == (JobState.RUNNING, True)
    assert await stands(store, account) == (0, 2 * HELD)
    stopped = await cell.desk.cancel(account, waiting)
    assert stopped is not None
    assert stopped.state is JobState.CANCELLED
    assert await stands(store, account) == (0, HELD)
    assert (await cell.succeed(job)).cancelled == {id}
    assert await stands(store, account) == (0, 0)
    await cell.drain()
    assert await charged(store) == [(1, 0, "job")]
    assert await cell.desk.cancel(AccountId("0" * 32), id) is None


async def test_batch_is_cancelled_with_its_money(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(3))
    batch = BatchId(new_id())
    deadline = 4e9
    opened = NewBatch(id=batch, account=account, key=KEY, door=Door.WORKERS_AI, deadline=deadline)
    submission = Submission(account, KEY, MODEL.id, Door.WORKERS_AI, deadline, batch=batch)
    jobs = [new_job(flex_request(account), item=item) for item in range(3)]
    first = await cell.desk.submit(submission, jobs, opened)
    again = [new_job(flex_request(account), item=item) for item in range(3)]
    replayed = await cell.desk.submit(submission, again, opened)
    assert (replayed.ids, replayed.added) == (first.ids, 0)
    assert await stands(store, account) == (0, 3 * HELD)
    await cell.claim()
    assert await cell.desk.cancel_batch(account, batch) == 3
    assert await stands(store, account) == (0, HELD)
    assert await cell.desk.cancel_batch(AccountId("0" * 32), batch) is None


async def test_job_that_is_given_up_gives_its_money_back(store: Store, tmp_path: Path) -> None:
    cell = JobCell(store, tmp_path, attempts_max=2, retry_seconds=0)
    account = await account_with(store, budget(1))
    await cell.submit_one(account)
    (job,) = await cell.claim()
    assert await cell.desk.retry(job, FAILURE) is JobState.QUEUED
    assert await stands(store, account) == (0, HELD)
    (again,) = await cell.claim()
    with pytest.raises(errors.LeaseLost):
        await cell.desk.retry(job, FAILURE)
    assert await cell.desk.retry(again, FAILURE) is JobState.FAILED
    assert await stands(store, account) == (0, 0)
    cell.worker.journal.leave()


async def test_job_past_its_deadline_gives_its_money_back(cell: JobCell, store: Store) -> None:
    account = await account_with(store, budget(1))
    await cell.submit(account, new_job(flex_request(account)), seconds=-1)
    assert (await cell.desk.sweep()).expired == 1
    assert await stands(store, account) == (0, 0)


async def test_completion_that_postgres_will_not_have_holds_up_no_other(
    cell: JobCell, store: Store
) -> None:
    account = await account_with(store)
    await cell.submit_one(account, client_retry=10**6)
    await cell.submit(account, *(new_job(flex_request(account)) for _ in range(4)))
    jobs = await cell.claim(5)
    finished = await cell.succeed(*jobs)
    assert finished.done == {job.id for job in jobs if job.ticket.client_retry is None}
    assert len(await charged(store)) == 4


@pytest.mark.parametrize("label", ["\0", "x" * 513])
@pytest.mark.parametrize("name", ["reference", "idempotency_key"])
async def test_label_that_fits_into_no_row_is_refused(
    cell: JobCell, store: Store, name: str, label: str
) -> None:
    account = await account_with(store)
    labels: dict[str, Any] = {name: label}
    with pytest.raises(errors.InvalidRequest):
        await cell.submit(account, new_job(flex_request(account), **labels))


@pytest.mark.parametrize("seed", range(3))
async def test_books_agree_whatever_becomes_of_jobs(
    store: Store, tmp_path: Path, seed: int
) -> None:
    """Pullers that lose leases, fail, cancel and finish, with drains in between, all at once."""
    chosen = random.Random(seed)
    cell = JobCell(store, tmp_path, retry_seconds=0, attempts_max=4)
    account = await account_with(store, budget(60))
    jobs = [new_job(flex_request(account, workflow=chosen.choice("abc"))) for _ in range(60)]
    ids = (await cell.submit(account, *jobs)).ids
    cancels = chosen.sample(ids, 6)

    async def pull() -> None:
        while claimed := await cell.claim(4, chosen.choice([0.001, 60, 60])):
            await asyncio.sleep(chosen.uniform(0, 0.01))
            fates = [chosen.random() for _ in claimed]
            run = [
                (job, await cell.run(job), fate) for job, fate in zip(claimed, fates, strict=True)
            ]
            await cell.complete(
                [
                    JobCompletion(job, end, ANSWER, FAILURE if fate < 0.1 else None)
                    for job, end, fate in run
                ]
            )

    async def tidy() -> None:
        for _ in range(20):
            await cell.drain()
            await cell.desk.sweep()
            await asyncio.sleep(0.01)

    await asyncio.gather(
        pull(), pull(), pull(), tidy(), *(cell.desk.cancel(account, id) for id in cancels)
    )
    await tidy()
    await pull()
    await cell.drain()
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select id::text, state, charge_nanousd from jobs")
    assert {state for _, state, _ in rows} <= {"succeeded", "failed", "cancelled"}
    by_job = {id: charge for id, _, charge in rows if charge}
    ledger = await attempts(store)
    by_request = {row["request"]: row["charge_nanousd"] for row in ledger if row["charge_nanousd"]}
    assert by_job == by_request
    assert len(by_request) == sum(row["charge_nanousd"] > 0 for row in ledger)
    found = await hours(store)
    assert {name: sum(hour[name] for hour in found) for name in SUMS} == added_up(ledger)
    assert sum(each["amount"] for each in await spent(store)) == sum(by_job.values())
    assert await stands(store, account) == (sum(by_job.values()), 0)
    cell.worker.journal.leave()
