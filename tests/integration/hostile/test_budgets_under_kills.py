"""A budget under load while gateways are killed: what is leased or spent never exceeds it."""

import asyncio
import random
import time

import pytest
from tests.chaos.cluster import Cluster, Held, read_held
from tests.chaos.ledger_check import settle
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.hostile.load_under_kills import Body, LoadUnderKills, kill_in_turn

from penstock.records.limit import Measure

# $0.004, some 60 answers of the test model.
_BUDGET_NANOUSD, _BUDGET_NANOUSD_FULL = 4_000_000, 40_000_000
_KILLS, _KILLS_FULL = 6, 40
_CLIENTS = 6
_OUTPUT_TOKENS_MAX = 20
_TOKENS = 10, _OUTPUT_TOKENS_MAX
_INTERVAL_SECONDS = 0.05
_LOAD_SECONDS_MAX, _LOAD_SECONDS_MAX_FULL = 40.0, 400.0
_LOOK_SECONDS = 0.05
_ROWS_SECONDS = 20.0
# What the last request could not reserve stays unspent; more than that would be stuck.
_LEAST_SHARE = 0.8


@pytest.mark.timeout(900)
def test_a_budget_is_not_overspent_whoever_dies(full: bool, seeded: random.Random) -> None:
    budget = _BUDGET_NANOUSD_FULL if full else _BUDGET_NANOUSD
    kills = _KILLS_FULL if full else _KILLS
    with Cluster({"metering.adopt_seconds": 0.5, "metering.drain_seconds": 0.1}) as cluster:
        limit = cluster.set_limit(cluster.cell.account, Measure.NANOUSD, budget).id
        gateways = [cluster.gateway.start(), cluster.add_gateway().start()]
        load = LoadUnderKills(gateways, cluster.cell.key)
        seconds = _LOAD_SECONDS_MAX_FULL if full else _LOAD_SECONDS_MAX
        watch = _Watch(cluster, limit)
        asyncio.run(_spend_under_kills(load, watch, kills, seconds, seeded))
        with cluster.connect() as connection:
            verdict = settle(connection, cluster.engine, load.heard, seconds=_ROWS_SECONDS)
            end = read_held(connection, limit)
            row = connection.execute("select sum(charge_nanousd) from usage_attempts").fetchone()
    assert row is not None
    charged = int(row[0])
    answers = f"{load.whole} whole answers, {load.cut} cut, {load.refused} refused"
    money = f"{watch.most} leased or spent at most, {end.spent} spent, {charged} charged"
    print(f"{kills} kills, {answers}; {money} of {budget}; {verdict}")
    assert verdict.is_good, verdict.cases
    assert watch.most <= budget
    assert max(end.spent, charged) <= budget
    assert charged >= _LEAST_SHARE * budget
    assert load.refused
    assert load.cut


class _Watch:
    """Looks at what is leased or spent until told that it is over."""

    def __init__(self, cluster: Cluster, limit: int) -> None:
        self._cluster = cluster
        self._limit = limit
        self.most = 0
        self.is_over = False

    def run(self) -> None:
        with self._cluster.connect() as connection:
            while not self.is_over:
                held: Held = read_held(connection, self._limit)
                self.most = max(self.most, held.charged)
                time.sleep(_LOOK_SECONDS)


async def _spend_under_kills(
    load: LoadUnderKills, watch: _Watch, kills: int, seconds: float, seeded: random.Random
) -> None:
    """Until every client was told that nothing is left, or the time is over."""

    def next_body() -> Body:
        script = {"tokens": seeded.randint(*_TOKENS), "interval": _INTERVAL_SECONDS}
        return chat_body(CHAT, script, stream=True, max_tokens=_OUTPUT_TOKENS_MAX)

    loop = asyncio.get_running_loop()
    watching = loop.run_in_executor(None, watch.run)
    loop.call_later(seconds, load.stop)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(_CLIENTS):
                group.create_task(load.client(number, next_body))
            await kill_in_turn(load.gateways, kills, random.Random(seeded.getrandbits(64)))
    finally:
        watch.is_over = True
        await watching
