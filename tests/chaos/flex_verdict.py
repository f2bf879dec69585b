"""What is left when everybody is quiet: does every promise hold, in the books and at the doors?"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
from tests.chaos.flex_cell import MODEL, FlexCell
from tests.chaos.flex_load import Accepted, Load
from tests.chaos.flex_plan import Door
from tests.chaos.flex_receiver import Receiver
from tests.chaos.ledger_check import Verdict, check_sums

_LOOK_SECONDS = 2.0
_SAY_SECONDS = 10.0
_READERS = 8

_EVENTS = {
    Door.WORKERS_AI: "cf.workersAi.model.batch.succeeded",
    Door.BATCHES: "batch.completed",
    Door.SINGLE: "job.succeeded",
}


class Findings(msgspec.Struct):
    """The first seven are the agreed ones. What is not a plain count of the run must be 0."""

    accepted: int = 0
    finished: int = 0
    lost: int = 0
    billed_twice: int = 0
    stuck: int = 0
    ran_twice: int = 0
    kills: int = 0
    primary_kills: int = 0
    # Jobs that ended otherwise than well; kills alone must not make one fail.
    failed: int = 0
    # Jobs that ended well and have no charge, or another one than the ledger's.
    billed_wrongly: int = 0
    # Jobs that nobody was told of: submitted once, there twice.
    doubled: int = 0
    events_missing: int = 0
    events_with_two_ids: int = 0
    # Sums by the hour that are not those of the rows, budgets that are not those of the charges.
    books_wrong: int = 0
    retries: int = 0
    webhooks: int = 0
    seconds_without_primary_max: float = 0.0
    seed: int = 0
    seconds: float = 0.0
    problems: list[str] = []

    def note(self, name: str, what: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        if len(self.problems) < 10:
            self.problems.append(f"{name}: {what}")

    def as_json(self) -> str:
        fields = {n: v for n, v in msgspec.structs.asdict(self).items() if n != "problems"}
        return msgspec.json.encode(fields).decode()

    @property
    def is_good(self) -> bool:
        broken = (
            self.lost, self.billed_twice, self.stuck, self.failed, self.billed_wrongly,
            self.doubled, self.events_missing, self.events_with_two_ids, self.books_wrong,
        )  # fmt: skip
        return self.accepted == self.finished and not any(broken)


class Books:
    """What Postgres says, whoever its primary is."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def wait_until_quiet(self, jobs: int, seconds: float) -> bool:
        """Until so many jobs have ended, all is told, and the ledger has every attempt."""
        deadline = time.monotonic() + seconds
        said_at = 0.0
        while time.monotonic() < deadline:
            left = await asyncio.to_thread(self._left, jobs)
            if not any(left.values()):
                return True
            if time.monotonic() > said_at + _SAY_SECONDS:
                print(f"left: {left}", flush=True)
                said_at = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    def check(self, findings: Findings, begun: dict[str, int]) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            rows = connection.execute(JOBS).fetchall()
            verdict = Verdict()
            check_sums(connection, verdict)
            budgets = connection.execute(BUDGETS).fetchall()
        for job, state, charge, charges, charged in rows:
            _check_job(findings, job, state, (charge, charges, charged))
        findings.doubled += max(0, len(rows) - findings.accepted)
        findings.ran_twice = sum(1 for times in begun.values() if times > 1)
        for case in verdict.cases:
            findings.note("books_wrong", case)
        for account, charged, held, spent in budgets:
            if not charged == held == spent:
                case = f"{account} was charged {charged}, its budget holds {held}, spent {spent}"
                findings.note("books_wrong", case)

    def _left(self, jobs: int) -> dict[str, int]:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            row = connection.execute(_LEFT).fetchone()
        assert row is not None
        ended, *others = map(int, row)
        names = ("open", "batches", "outbox", "deliveries", "uncharged")
        return {"jobs": max(0, jobs - ended), **dict(zip(names, others, strict=True))}


def _check_job(findings: Findings, job: str, state: str, money: tuple[int, int, int]) -> None:
    charge, charges, charged = money
    if state in {"queued", "running"}:
        findings.note("stuck", f"{job} is {state}")
    elif state != "succeeded":
        findings.note("failed", f"{job} is {state}")
    if charges > 1:
        findings.note("billed_twice", f"{job} has {charges} charges")
    elif (charges == 1) != (state == "succeeded") or charge != charged:
        findings.note("billed_wrongly", f"{job}: {state}, {charges} charges, {charge}, {charged}")


async def check_doors(findings: Findings, cell: FlexCell, load: Load) -> None:
    """Every parcel, read through the door that it came in by."""
    waiting = list(load.accepted)
    findings.accepted = sum(len(each.parcel.prompts) for each in waiting)
    findings.retries = load.retries
    for parcel in load.two_ids:
        findings.note("doubled", f"parcel {parcel.number} has two ids")

    async def read() -> None:
        while waiting:
            each = waiting.pop()
            done = await _count_done(each, cell, load)
            findings.finished += done
            if done != len(each.parcel.prompts):
                findings.problems.append(f"{each.parcel.door} {each.id}: {done} done")

    async with asyncio.TaskGroup() as group:
        for _ in range(_READERS):
            group.create_task(read())


def check_events(findings: Findings, accepted: Sequence[Accepted], receiver: Receiver) -> None:
    """Every parcel's end was told, however often, under one id."""
    findings.webhooks = receiver.received
    for each in accepted:
        event = _EVENTS[each.parcel.door], each.id
        if event not in receiver.taken:
            findings.note("events_missing", " ".join(event))
    for event, ids in receiver.ids.items():
        if len(ids) > 1:
            findings.note("events_with_two_ids", f"{event}: {ids}")


async def _count_done(each: Accepted, cell: FlexCell, load: Load) -> int:
    customer = cell.customers[each.parcel.customer]
    if each.parcel.door is Door.WORKERS_AI:
        path = f"/client/v4/accounts/{customer.account}/ai/run/{MODEL}?queueRequest=true"
        answer = await load.call(load.post(customer, path, {"request_id": each.id}))
        items: list[dict[str, Any]] = answer.json()["result"].get("responses", [])
        return sum(1 for item in items if item["success"])
    if each.parcel.door is Door.BATCHES:
        answer = await load.call(load.get(customer, f"/v1/batches/{each.id}"))
        counts = answer.json()["request_counts"]
        return int(counts["completed"]) if answer.json()["status"] == "completed" else 0
    answer = await load.call(load.get(customer, f"/v1/jobs/{each.id}"))
    return int(answer.json()["state"] == "succeeded")


_LEFT = """
    select (select count(*) from jobs where finished_at is not null),
           (select count(*) from jobs where finished_at is null),
           (select count(*) from job_batches where state = 'open'),
           (select count(*) from outbox),
           (select count(*) from deliveries),
           (select count(*) from jobs j where state = 'succeeded' and not exists (
               select from usage_attempts u where u.request = j.id and u.charge_nanousd > 0))
"""
JOBS = """
    select j.id::text, j.state, j.charge_nanousd,
           count(*) filter (where u.charge_nanousd > 0), coalesce(sum(u.charge_nanousd), 0)::bigint
    from jobs j left join usage_attempts u on u.request = j.id
    group by j.id
"""
# What jobs hold of a budget when all have ended is what they cost, and what was spent of it.
BUDGETS = """
    select account, sum(charge_nanousd)::bigint,
           (select coalesce(sum(e.granted), 0)::bigint
            from leases e join limits l on l.id = e.limit_id where l.account = jobs.account),
           (select coalesce(sum(s.amount), 0)::bigint
            from limit_spend s join limits l on l.id = s.limit_id where l.account = jobs.account)
    from jobs group by account
"""
