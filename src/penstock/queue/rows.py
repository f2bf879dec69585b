"""Converts rows of `jobs` into records."""

from typing import Final, LiteralString

import msgspec

from penstock.records.job import (
    ClaimedJob,
    Door,
    Job,
    JobFailure,
    JobState,
    Priority,
    Ticket,
)
from penstock.records.usage import Usage
from penstock.store.pool import Row

# Columns in the order of `job_from`, without the answers, which would make a page very large.
JOB_FACTS: Final[LiteralString] = """
    id::text, account, model, door, priority, state, batch::text, item, reference,
    extract(epoch from created_at)::float8, extract(epoch from deadline)::float8,
    extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8,
    attempts, failure_code, failure_message, failure_status,
    prompt_tokens, completion_tokens, cached_tokens, charge_nanousd, is_cancelling, result_object,
    last_error_code, last_error_message
"""
JOB_WITH_RESULT: Final[LiteralString] = JOB_FACTS + ", result"

_TICKETS: Final = msgspec.msgpack.Decoder(Ticket)


def signed(number: int) -> int:
    """Return the signed integer with the same 64 bits, as Postgres has no unsigned ones."""
    return number - 2**64 if number >= 2**63 else number


def job_from(row: Row) -> Job:
    """Return the job in a row of JOB_FACTS or JOB_WITH_RESULT."""
    code, message, status, prompt, completion, cached = row[14:20]
    return Job(
        id=row[0],
        account=row[1],
        model=row[2],
        door=Door(row[3]),
        priority=Priority(row[4]),
        state=JobState(row[5]),
        batch=row[6],
        item=row[7],
        reference=row[8],
        created_at=row[9],
        deadline=row[10],
        started_at=row[11],
        finished_at=row[12],
        attempts=row[13],
        failure=None if code is None else JobFailure(code, message, status),
        usage=None if prompt is None else Usage(prompt, completion, cached),
        charge_nanousd=row[20],
        is_cancelling=row[21],
        result_object=row[22],
        last_error=None if row[23] is None else JobFailure(row[23], row[24]),
        result=row[25] if len(row) > 25 else b"",
    )


def claimed_from(row: Row) -> ClaimedJob:
    """Return the job in a row of the statement `take`."""
    id, epoch, account, key, model, priority, payload, payload_object, ticket, *times = row
    created_at, deadline, attempts, door = times
    return ClaimedJob(
        id=id,
        epoch=epoch,
        account=account,
        key=key,
        model=model,
        priority=Priority(priority),
        payload=payload,
        payload_object=payload_object,
        ticket=_TICKETS.decode(ticket),
        created_at=created_at,
        deadline=deadline,
        attempts=attempts,
        door=Door(door),
    )
