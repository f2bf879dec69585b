"""A month of attempts for the console's benchmark, written by the drain's own ledger."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tests.integration.cells.usage_rows import Attempt, attempt, write

from penstock.policy import AccountBook
from penstock.records.price import Price
from penstock.store import Store

DAYS: Final = 30
ACCOUNTS: Final = 20
# Each account has these, so that the month has 60 groups of account and workflow.
WORKFLOWS: Final = ("code-review", "nightly", "triage")
MODELS: Final = ("@cf/moonshotai/kimi-k2.5", "@cf/openai/gpt-oss-120b")
_REPLICAS: Final = 24
_TURNS: Final = 25
_TURN_SECONDS: Final = 60
_PRICE: Final = Price(600_000_000, 100_000_000, 3_000_000_000)
# What the drain takes at a time, at its most.
_BATCH: Final = 5000
_MOVED: Final = ("load", "load", "drain", "lost")


async def fill_month(store: Store, attempts: int, ends: datetime) -> list[str]:
    """Write sessions of 25 turns, spread over the month before `ends`; return the accounts."""
    book = AccountBook(store)
    accounts = [str((await book.create(f"Team {number}")).id) for number in range(ACCOUNTS)]
    batch: list[Attempt] = []
    for row in _rows(accounts, attempts // _TURNS, ends):
        batch.append(row)
        if len(batch) == _BATCH:
            await write(store, batch)
            batch = []
    await write(store, batch)
    return accounts


def _rows(accounts: list[str], sessions: int, ends: datetime) -> Iterator[Attempt]:
    draw = random.Random(20261119)
    began = ends - timedelta(days=DAYS)
    step = timedelta(days=DAYS) / sessions
    for number in range(sessions):
        # The last sessions end with the month.
        start = min(began + step * number, ends - timedelta(seconds=_TURNS * _TURN_SECONDS))
        yield from _session(draw, accounts[number % ACCOUNTS], f"session-{number}", start)


def _session(draw: random.Random, account: str, name: str, start: datetime) -> Iterator[Attempt]:
    replica, growth = draw.randrange(_REPLICAS), draw.randint(300, 2500)
    workflow, model = draw.choice(WORKFLOWS), draw.choice(MODELS)
    for turn in range(_TURNS):
        is_moved, is_broken = draw.random() < 0.02, draw.random() < 0.02
        if is_moved:
            replica = draw.randrange(_REPLICAS)
        prompt = 6000 + growth * turn + draw.randint(0, 200)
        cached = 0 if turn == 0 or is_moved or is_broken else int(prompt * 0.92)
        first_us = int((draw.uniform(180, 320) + (prompt - cached) * 0.02) * 1000)
        is_failed = draw.random() < 0.01
        yield attempt(
            account,
            price=_PRICE,
            model=model,
            replica=f"r-{replica}",
            asked_at=(start + timedelta(seconds=_TURN_SECONDS * turn)).timestamp(),
            workflow=workflow,
            session=name,
            prompt_family=f"family of {workflow}",
            prompt_tokens=prompt,
            cached_tokens=cached,
            cached_expected=0 if turn == 0 else int(prompt * 0.92),
            session_moved=draw.choice(_MOVED) if is_moved else "",
            cache_break="system" if is_broken and turn else "",
            client_retry=1 if draw.random() < 0.02 else None,
            output_tokens=draw.randint(20, 800),
            outcome="failed" if is_failed else "ok",
            error="engine_lost" if is_failed else "",
            first_token_us=first_us,
            streamed_us=4_000_000,
            duration_us=first_us + 4_000_000,
        )
