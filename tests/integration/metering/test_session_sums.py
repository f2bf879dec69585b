"""Sums of workflows and sessions say what the ledger's rows say, however the rows came in."""

import random
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.cells.usage_rows import HOUR, Attempt, attempt, new_account, write

from penstock.store import Store

# As the sums are defined, out of the ledger's rows.
WORKFLOWS = """
select date_trunc('hour', asked_at, 'UTC'), workflow, contract, task, model,
    count(*) filter (where attempt = 1),
    count(*) filter (where attempt = 1 and session <> ''),
    count(*) filter (where session_moved = 'load'),
    count(*) filter (where session_moved = 'drain'),
    count(*) filter (where session_moved = 'lost'),
    count(*) filter (where attempt = 1 and session <> '' and client_retry > 0),
    count(*) filter (where attempt = 1 and session <> '' and client_retry > 0
        and session_moved = ''),
    count(*) filter (where cache_break <> ''),
    coalesce(sum(prompt_tokens) filter (where c), 0)::bigint,
    coalesce(sum(least(cached_expected, prompt_tokens)) filter (where c), 0)::bigint,
    coalesce(sum(cached_tokens) filter (where c), 0)::bigint
from (
    select *, cached_expected + cached_tokens + prompt_tokens is not null
        and not is_cached_estimated as c
    from usage_attempts where account = %s
) rows
group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
"""
WORKFLOW_SUMS = """
select hour, workflow, contract, task, model, requests, session_turns, moved_load, moved_drain,
    moved_lost, session_retries, session_retries_stayed, cache_breaks, prompt_tokens_compared,
    cached_tokens_expected, cached_tokens_counted
from workflow_hours where account = %s order by 1, 2, 3, 4, 5
"""
SESSIONS = """
select day, session, (array_agg(workflow order by asked_at desc))[1],
    count(*) filter (where attempt = 1), min(asked_at), max(asked_at),
    (array_agg(prompt_tokens order by asked_at desc) filter (where prompt_tokens is not null))[1],
    max(prompt_tokens),
    coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0)::bigint,
    coalesce(sum(cached_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
    count(*) filter (where session_moved <> ''), count(*) filter (where cache_break <> ''),
    sum(charge_nanousd)::bigint
from usage_attempts where account = %s and session <> ''
group by 1, 2 order by 1, 2
"""
SESSION_SUMS = """
select day, session, workflow, turns, first_at, last_at, prompt_last, prompt_max,
    prompt_tokens_known, cached_tokens, output_tokens, moves, cache_breaks, charge_nanousd
from session_days where account = %s order by 1, 2
"""
SLOPES = """
select session, regr_slope(prompt_tokens, number) from (
    select session, prompt_tokens, row_number() over (partition by session order by asked_at)
        as number
    from usage_attempts where account = %s and session <> '' and prompt_tokens is not null
) numbered group by 1 order by 1
"""
SLOPE_SUMS = """
select session,
    (prompts * sum_xy - sum_x * sum_y) / nullif(prompts * sum_xx - sum_x * sum_x, 0)
from session_days where account = %s order by 1
"""


async def fetch(store: Store, sql: Any, account: str) -> list[tuple[Any, ...]]:
    async with store.statement() as statement:
        return await statement.fetch(sql, (account,))


def made_up(account: str, draw: random.Random, number: int) -> list[Attempt]:
    """A request, of which some were tried twice."""
    prompt = draw.choice([None, draw.randint(1, 5000)])
    facts: dict[str, Any] = {
        # Each at a time of its own, over three hours of which the last is another day's.
        "asked_at": (HOUR + timedelta(hours=9, seconds=number * 14)).timestamp(),
        "workflow": draw.choice(["", "w", "v"]),
        "contract": draw.choice(["", "w@1", "w@2"]),
        "task": draw.choice(["", "extract"]),
        "session": draw.choice(["", "s", "t", "u"]),
        "client_retry": draw.choice([None, 0, 1]),
        "prompt_tokens": prompt,
        "cached_tokens": None if prompt is None else draw.choice([None, prompt // 2]),
        "cached_expected": draw.choice([None, 100, 10_000]),
        "is_cached_estimated": draw.random() < 0.1,
        "session_moved": draw.choice(["", "", "load", "drain", "lost"]),
        "cache_break": draw.choice(["", "", "system"]),
    }
    first = attempt(account, **facts)
    if draw.random() < 0.8:
        return [first]
    lost = facts | {"outcome": "failed", "prompt_tokens": None, "cached_tokens": None}
    again = {**first, "attempt": 2, "asked_us": first["asked_us"]}
    return [{**first, **lost, "charge_nanousd": 0, "charge_reason": "not_delivered"}, again]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_sums_are_those_of_the_rows_in_any_order_and_twice(store: Store, seed: int) -> None:
    account, draw = new_account(), random.Random(seed)
    rows = [row for number in range(1000) for row in made_up(account, draw, number)]
    draw.shuffle(rows)
    for start in range(0, len(rows), 150):
        batch = rows[start : start + 150]
        await write(store, batch)
        # A drain whose commit was not heard of writes its batch again.
        await write(store, batch)

    found = await fetch(store, WORKFLOW_SUMS, account)
    assert found == await fetch(store, WORKFLOWS, account)
    assert len({row[0] for row in found}) > 1
    sessions = await fetch(store, SESSION_SUMS, account)
    assert sessions == await fetch(store, SESSIONS, account)
    assert len({row[0] for row in sessions}) == 2


async def test_the_slope_is_that_of_the_turns_in_their_order(store: Store) -> None:
    account, draw = new_account(), random.Random(4)
    rows = [
        attempt(
            account,
            asked_at=HOUR.timestamp() + turn,
            session=session,
            prompt_tokens=draw.choice([None, 1000 + 500 * turn + draw.randint(0, 300)]),
        )
        for turn in range(40)
        for session in ("one", "two", f"single-{turn}")
    ]
    for start in range(0, len(rows), 17):
        await write(store, rows[start : start + 17])

    found = await fetch(store, SLOPE_SUMS, account)
    expected = await fetch(store, SLOPES, account)
    slopes = {session: slope for session, slope in found if slope is not None}
    assert slopes == pytest.approx({name: slope for name, slope in expected if slope is not None})
    assert {"one", "two"} == slopes.keys()


async def test_new_days_have_indexes_for_what_came_last_and_for_callers_ids(store: Store) -> None:
    account = new_account()
    await write(store, [attempt(account)])
    async with store.statement() as statement:
        rows = await statement.fetch(
            "select indexdef from pg_indexes where tablename = %s",
            (f"usage_attempts_{HOUR:%Y%m%d}",),
        )
        drained = await statement.fetch(
            "select now() - drained_at < interval '1 minute' from usage_attempts"
            " where account = %s",
            (account,),
        )
    definitions = " ".join(row[0] for row in rows)
    assert "USING brin (drained_at)" in definitions
    assert "btree (caller_request) WHERE" in definitions
    assert drained == [(True,)]
