"""Two gateways on one journal folder, killed in turn under load: nothing is lost, nothing twice."""

import asyncio
import random

import pytest
from tests.chaos.cluster import Cluster
from tests.chaos.ledger_check import settle
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.hostile.load_under_kills import Body, LoadUnderKills, kill_in_turn

_KILLS, _KILLS_FULL = 6, 40
_CLIENTS = 16
_TOKENS = 2, 24
_INTERVAL_SECONDS = 0.04
_ROWS_SECONDS = 20.0


@pytest.mark.timeout(900)
def test_every_stream_has_one_row_whoever_dies(full: bool, seeded: random.Random) -> None:
    with Cluster({"metering.adopt_seconds": 0.5, "metering.drain_seconds": 0.1}) as cluster:
        first = cluster.gateway.start()
        gateways = [first, cluster.add_gateway(journal=cluster.cell.journal).start()]
        load = LoadUnderKills(gateways, cluster.cell.key)
        kills = _KILLS_FULL if full else _KILLS
        asyncio.run(_kill_under_load(load, kills, seeded))
        with cluster.connect() as connection:
            verdict = settle(connection, cluster.engine, load.heard, seconds=_ROWS_SECONDS)
    print(f"{kills} kills, {load.whole} whole answers, {load.cut} cut: {verdict}")
    assert verdict.is_good, verdict.cases
    # Kills must find streams at work, and leave time for others.
    assert load.cut >= kills
    assert load.whole >= kills


async def _kill_under_load(load: LoadUnderKills, kills: int, seeded: random.Random) -> None:
    def next_body() -> Body:
        script = {"tokens": seeded.randint(*_TOKENS), "interval": _INTERVAL_SECONDS}
        return chat_body(CHAT, script, stream=seeded.random() < 0.8)

    async with asyncio.TaskGroup() as group:
        for number in range(_CLIENTS):
            group.create_task(load.client(number, next_body))
        await kill_in_turn(load.gateways, kills, random.Random(seeded.getrandbits(64)))
        load.stop()
