"""A made-up incident in the ledger: a date in a system prompt breaks one workflow's cache, and one
replica is slow. Culprits are drawn by a seed.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tests.integration.cells.usage_rows import Attempt, attempt, write

from penstock.policy import AccountBook
from penstock.records.price import Price
from penstock.records.request import Outcome
from penstock.store import Store

WORKFLOWS = ("code-review", "nightly", "triage", "docs")
REPLICAS = ("r-2", "r-3", "r-7", "r-9")
# As the catalogue has them.
MODEL = "@cf/moonshotai/kimi-k2.5"
_PRICE = Price(600_000_000, 100_000_000, 3_000_000_000)
DAYS = 2
_TURNS = 12
_SESSIONS_PER_HOUR = 1


class Incident(NamedTuple):
    """Who did it, and since when."""

    account: str
    workflow: str
    replica: str
    began_at: datetime
    ends_at: datetime


async def make_incident(store: Store, seed: int, now: datetime) -> Incident:
    """Fill a day as usual and a day with the incident; both end at `now`'s hour."""
    draw = random.Random(seed)
    workflow, replica = draw.choice(WORKFLOWS), draw.choice(REPLICAS)
    owners = await _owners(store)
    ends = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    began = ends - timedelta(days=1)
    rows: list[Attempt] = []
    for hour in range(24 * DAYS):
        start = ends - timedelta(days=DAYS) + timedelta(hours=hour)
        is_broken = start >= began
        for each in WORKFLOWS:
            for number in range(_SESSIONS_PER_HOUR):
                rows += _session(
                    draw,
                    owners[each],
                    each,
                    f"{each}-{hour}-{number}",
                    start + timedelta(minutes=number + draw.randint(0, 20)),
                    breaks=is_broken and each == workflow,
                    slow=replica if is_broken else "",
                )
    draw.shuffle(rows)
    for start_at in range(0, len(rows), 2000):
        await write(store, rows[start_at : start_at + 2000])
    return Incident(owners[workflow], workflow, replica, began, ends)


async def make_last_hour(store: Store, incident: Incident, seed: int, now: datetime) -> None:
    """Add what every replica served in the 40 minutes before `now`: a session of each workflow."""
    draw = random.Random(seed)
    owners = await _owners(store)
    rows: list[Attempt] = []
    for replica in REPLICAS:
        for each in WORKFLOWS:
            rows += _session(
                draw,
                owners[each],
                each,
                f"{each}-now-{replica}",
                now - timedelta(minutes=draw.uniform(25, 40)),
                breaks=each == incident.workflow,
                slow=incident.replica,
                on=replica,
            )
    await write(store, rows)


async def _owners(store: Store) -> dict[str, str]:
    """Return the account of each workflow; make the accounts if there are none."""
    book = AccountBook(store)
    known = {each.name: each.id for each in await book.list()}
    names = ("Team A", "Team B")
    ids = {name: known.get(name) or (await book.create(name)).id for name in names}
    return {each: ids[names[(at + 1) % 2]] for at, each in enumerate(WORKFLOWS)}


def _session(
    draw: random.Random,
    account: str,
    workflow: str,
    session: str,
    start: datetime,
    *,
    breaks: bool,
    slow: str,
    on: str = "",
) -> list[Attempt]:
    replica = on or draw.choice(REPLICAS)
    rows = []
    for turn in range(_TURNS):
        prompt = 6000 + 900 * turn + draw.randint(0, 200)
        cached = 0 if breaks or turn == 0 else int(prompt * 0.92)
        first_ms = draw.uniform(180, 320) + (prompt - cached) * 0.02
        first_us = int(first_ms * (3 if replica == slow else 1) * 1000)
        rows.append(
            attempt(
                account,
                price=_PRICE,
                model=MODEL,
                asked_at=(start + timedelta(seconds=90 * turn)).timestamp(),
                workflow=workflow,
                session=session,
                prompt_family=f"family of {workflow}",
                replica=replica,
                prompt_tokens=prompt,
                cached_tokens=cached,
                cached_expected=0 if turn == 0 else int(prompt * 0.92),
                cache_break="system" if breaks and turn else "",
                output_tokens=draw.randint(100, 400),
                first_token_us=first_us,
                streamed_us=4_000_000,
                duration_us=first_us + 4_000_000,
                outcome=Outcome.OK,
            )
        )
    return rows
