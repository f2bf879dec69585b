"""Attempts as journals hold them, and what Postgres makes of them, for tests of the drain."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.metering.journal_files import PRICE, SMALL, ask, picked

from penstock.clock import new_id
from penstock.metering import Drain, Journal, Ledger, MeteringSettings, Refusals
from penstock.metering.bill import Bill
from penstock.metering.journal_reader import Row
from penstock.metering.ledger_line import closing, opening
from penstock.policy import AccountBook
from penstock.records.price import cost_nanousd
from penstock.records.request import Outcome, RequestId
from penstock.records.usage import Usage
from penstock.store import Store

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC).timestamp()
USAGE = Usage(1000, 50, 100)
SUMS = (
    "requests", "attempts", "ok", "client_left", "failed", "interrupted", "retried", "retried_ok",
    "prompt_tokens", "prompt_tokens_known", "cached_tokens", "output_tokens", "charge_nanousd",
)  # fmt: skip

_numbers = itertools.count()


def id_at(seconds: float) -> RequestId:
    """A new UUIDv7 of that time."""
    number = (int(seconds * 1000) << 80) | (7 << 76) | (2 << 62) | next(_numbers)
    text = f"{number:032x}"
    return RequestId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def halves(
    *,
    at: float = NOON,
    usage: Usage | None = USAGE,
    outcome: Outcome = Outcome.OK,
    attempt: int = 1,
    limits: tuple[int, ...] = (),
    **facts: Any,
) -> tuple[bytes, bytes]:
    """An attempt's opening and closing."""
    request = ask(**{"id": id_at(at), "asked_at": at, **facts})
    charge = 0 if usage is None else cost_nanousd(usage, PRICE)
    first = None if usage is None else 40_000
    return (
        opening(request, picked(replica="replica", attempts=attempt - 1), 1000, limits),
        closing((90_000, first, 50_000), outcome, "", Bill(usage, charge)),
    )


def line(**facts: Any) -> Row:
    """One whole attempt."""
    return b"".join(halves(**facts))


class Worker:
    """A worker's journal and drain, without the rest of it."""

    def __init__(self, store: Store, folder: Path, settings: MeteringSettings = SMALL) -> None:
        self.journal = Journal(folder, new_id(), settings)
        self.refusals = Refusals(store, settings.refusals_max)
        self.released: list[str] = []
        ledger = Ledger(store, settings.workflows_max)
        self.drain = Drain(self.journal, ledger, self.refusals, settings, self._release)

    async def _release(self, holder: str) -> None:
        self.released.append(holder)

    def begin(self, opened: bytes) -> int:
        slot = self.journal.slots.take()
        self.journal.open(slot, opened)
        return slot

    def end(self, slot: int, closed: bytes) -> None:
        self.journal.close(slot, closed)
        self.journal.slots.free(slot)

    def write(self, **facts: Any) -> None:
        """One attempt from its opening to its end."""
        opened, closed = halves(**facts)
        self.end(self.begin(opened), closed)


async def attempts(store: Store) -> list[dict[str, Any]]:
    """The ledger's rows in the order of their requests."""
    return await _dicts(
        store,
        "select row_to_json(a) from usage_attempts a order by a.request, a.attempt",
    )


async def hours(store: Store) -> list[dict[str, Any]]:
    """The hourly sums."""
    statement = "select row_to_json(h) from usage_hours h order by hour, account, key, workflow"
    return await _dicts(store, statement)


async def spent(store: Store) -> list[dict[str, Any]]:
    statement = "select row_to_json(s) from limit_spend s order by limit_id, value, window_start"
    return await _dicts(store, statement)


async def _dicts(store: Store, statement: Any) -> list[dict[str, Any]]:
    async with store.transaction() as transaction:
        return [row[0] for row in await transaction.fetch(statement)]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def added_up(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The sums that the ledger's rows come to, with nothing clever about it."""
    total = dict.fromkeys(SUMS, 0)
    for row in rows:
        is_retry, is_ok = (row["client_retry"] or 0) > 0, row["outcome"] == "ok"
        counted = {
            "requests": row["attempt"] == 1,
            "attempts": 1,
            row["outcome"]: 1,
            "retried": is_retry and row["attempt"] == 1,
            "retried_ok": is_retry and is_ok,
            "prompt_tokens": row["prompt_tokens"] or 0,
            "prompt_tokens_known": (row["prompt_tokens"] or 0)
            if row["cached_tokens"] is not None
            else 0,
            "cached_tokens": row["cached_tokens"] or 0,
            "output_tokens": row["output_tokens"] or 0,
            "charge_nanousd": row["charge_nanousd"],
        }
        for name, value in counted.items():
            total[name] += int(value)
    return total


async def add_limit(store: Store, scope: str, measure: str, period: str) -> int:
    account = await AccountBook(store).create("limited")
    async with store.transaction() as transaction:
        row = await transaction.fetch_one(
            "insert into limits (account, scope, value, measure, period, amount, is_hard,"
            " base_window, base_amount, revision)"
            " values (%s, %s, %s, %s, %s, 1000, true, now(), 0, 1) returning id",
            (account.id, scope, "" if scope == "account" else "*", measure, period),
        )
    assert row is not None
    return int(row[0])
