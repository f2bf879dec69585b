"""What both sides of the queue's benchmark run: the same jobs and the same lines of the ledger."""

import itertools
from collections.abc import Iterator

from penstock.clock import SystemClock, new_id
from penstock.metering.bill import Bill
from penstock.metering.ledger_line import closing
from penstock.records.account import AccountId, KeyId
from penstock.records.job import Door, JobId, NewJob, Submission, Ticket
from penstock.records.model import ModelId
from penstock.records.price import Price
from penstock.records.request import Outcome
from penstock.records.usage import Usage
from penstock.store import Store

MODEL = ModelId("@bench/model")
ACCOUNTS = 1000
BATCH = 100
WORKERS = 4
LEASE_SECONDS = 60.0
PAYLOAD = b'{"messages":[{"role":"user","content":"' + b"x" * 450 + b'"}]}'
RESULT = b'{"choices":[{"message":{"content":"' + b"y" * 450 + b'"}}]}'
USAGE = Usage(150, 40, 0)
CHARGE = 42
TICKET = Ticket(
    price=Price(1000, 100, 3000).terms, prompt_tokens_estimate=150, output_tokens_max=100
)

_CLOSED = closing((90_000, None, None), Outcome.OK, "", Bill(USAGE, CHARGE))
_FILL = """
    insert into jobs (
        id, account, key, model, door, priority, item, deadline, tag, tokens, weight,
        opening, payload, payload_object, ticket, held, limits, workflow, session
    )
    select
        ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        -- Half of all is one account's; the others share the rest.
        lpad(to_hex(case when n %% 2 = 0 then 0 else 1 + (n / 2) %% (%s - 1) end), 32, '0'),
        'key', %s, 'chat', 0, 0, now() + interval '1 day',
        case when n %% 2 = 0 then n / 2 else 1 + n / 2 / (%s - 1) end * 250.0, 250, 1,
        0, %s, '', '\\x80', 0, '{}', '', ''
    from generate_series(%s::bigint, %s::bigint) as n
"""
_FILL_TAGS = """
    insert into fair_tags (model, priority, account, tag, weight, open_jobs)
    select model, priority, account, max(tag), 1, count(*) from jobs group by 1, 2, 3
"""
_FILL_ROWS = 50_000


def account(number: int) -> AccountId:
    return AccountId(f"{number % ACCOUNTS:032x}")


def submission(number: int) -> Submission:
    deadline = SystemClock().now() + 86_400
    return Submission(account(number), KeyId("key"), MODEL, Door.CHAT, deadline)


def new_jobs() -> list[NewJob]:
    return [NewJob(JobId(new_id()), PAYLOAD, TICKET) for _ in range(BATCH)]


def ledger_line(job: str, account: str, epoch: int) -> bytes:
    """An attempt as a meter hands it to the completion."""
    opened = (
        f"{job}\t{account}\tkey\t{MODEL}\tflex\t1000\t100\t3000\t10000\t{epoch}\treplica\t\t\t\t"
        "f\t\\N\t\t1000\t{}\t\\N\t\t\t"
    )
    return opened.encode() + _CLOSED


def numbers(worker: int) -> Iterator[int]:
    """Which account submits next: each worker has its own, as gateways mostly do."""
    return itertools.count(worker * ACCOUNTS // WORKERS)


async def fill(store: Store, queued: int) -> None:
    """A queue of so many jobs, half of them one account's."""
    for first in range(1, queued + 1, _FILL_ROWS):
        last = min(first + _FILL_ROWS - 1, queued)
        async with store.transaction() as tx:
            await tx.execute("set local synchronous_commit = off")
            values = (ACCOUNTS, MODEL, ACCOUNTS, PAYLOAD, first, last)
            await tx.execute(_FILL, values)
    async with store.transaction() as tx:
        await tx.execute(_FILL_TAGS)
