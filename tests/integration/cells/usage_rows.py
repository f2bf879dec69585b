"""Attempts for tests of usage reports: made up here, written by the drain's own ledger."""

import itertools
from datetime import UTC, datetime
from typing import Any

from penstock.clock import new_id
from penstock.metering import Ledger
from penstock.metering.bill import ESTIMATED
from penstock.metering.ledger_line import COLUMNS
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store

HOUR = datetime(2026, 11, 10, 12, tzinfo=UTC)
PRICE = Price(600_000_000, 150_000_000, 3_000_000_000)
HOLDER = new_id()
# What is not said of an attempt is ordinary.
ORDINARY: dict[str, Any] = {
    "attempt": 1,
    "key": "key-1",
    "model": "@cf/test/chat",
    "replica": "replica-1",
    "session": "",
    "prompt_family": "",
    "workflow": "",
    "tier": "now",
    "is_stream": True,
    "client_retry": None,
    "caller_request": "",
    "asked_at": HOUR.timestamp(),
    "waited_us": 1000,
    "limits": "{}",
    "cached_expected": None,
    "session_moved": "",
    "cache_break": "",
    "parent_id": "",
    "purpose": "",
    "contract": "",
    "task": "",
    "model_asked": "",
    "duration_us": 100_000,
    "outcome": "ok",
    "error": "",
    "first_token_us": None,
    "streamed_us": None,
    "prompt_tokens": 1000,
    "cached_tokens": 100,
    "is_cached_estimated": False,
    "output_tokens": 50,
    "charge_reason": "",
}

Attempt = dict[str, Any]

_counter = itertools.count()


def id_at(seconds: float) -> str:
    """A new UUIDv7 of that time; later ones of the same time sort behind."""
    number = (int(seconds * 1000) << 80) | (7 << 76) | (2 << 62) | next(_counter)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_account() -> str:
    return new_id().replace("-", "")


def attempt(account: str, *, price: Price = PRICE, **facts: Any) -> Attempt:
    """One attempt, charged by its usage, unless there is a reason not to."""
    made = ORDINARY | facts
    usage = Usage(made["prompt_tokens"] or 0, made["output_tokens"] or 0, made["cached_tokens"])
    return {
        "request": id_at(made["asked_at"]),
        "account": account,
        "asked_us": int(made["asked_at"] * 1_000_000),
        "price": price,
        "input_nanousd_per_mtok": price.input_nanousd_per_mtok,
        "cached_input_nanousd_per_mtok": price.cached_input_nanousd_per_mtok,
        "output_nanousd_per_mtok": price.output_nanousd_per_mtok,
        "multiplier_bp": price.multiplier_bp,
        "charge_nanousd": cost_nanousd(usage, price) if is_charged(made) else 0,
        **made,
    }


def is_charged(facts: Attempt) -> bool:
    return facts["charge_reason"] in {"", ESTIMATED}


async def write(store: Store, attempts: list[Attempt]) -> None:
    lines = ["\t".join(_text(each[name]) for name in COLUMNS) + "\n" for each in attempts]
    await Ledger(store, workflows_max=1000).write(HOLDER, [line.encode() for line in lines])


def _text(value: object) -> str:
    if value is None:
        return "\\N"
    return str(int(value)) if isinstance(value, bool) else str(value)
