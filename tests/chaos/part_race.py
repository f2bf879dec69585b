"""64 clients race over two gateways for a budget of exactly N requests, and one is killed."""

import asyncio
import contextlib
import json
import math
import random
import re
import time
from decimal import Decimal
from typing import Any

import psycopg
from tests.chaos.cluster import Cluster, Held, kill, read_held
from tests.chaos.findings import Findings
from tests.chaos.ledger_check import Verdict, read_rows, settle
from tests.chaos.traffic import Heard, ask, may_go_on
from tests.integration.cells.gateway_cell import CHAT, prompt
from tests.integration.cells.gateway_process import GatewayProcess, eventually

from penstock.ingress.settings import IngressSettings
from penstock.records.limit import Measure
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

CLIENTS = 64
_TOKENS = 20
_ENGINE_SECONDS = 0.4
# The test models' prices, see tests/integration/cells/gateway_cell.py.
_PRICE = Price(600_000_000, 0, 3_000_000_000)
_RACE_SECONDS_MAX = 90.0
_AMOUNTS = re.compile(r"leaves ([\d.]+) USD, and this request may need ([\d.]+) USD")


class _Race:
    """One race; what its clients heard, and what Postgres showed meanwhile."""

    def __init__(
        self, cluster: Cluster, gateways: list[GatewayProcess], body: dict[str, Any]
    ) -> None:
        self.cluster = cluster
        self.gateways = gateways
        self.body = body
        self.heard: dict[str, Heard] = {}
        self.asked: dict[str, tuple[float, float]] = {}
        self.looks: list[tuple[float, float, Held]] = []
        self.is_over = False

    async def client(self, number: int) -> None:
        """Ask until the budget is used up, coming back when told to."""
        ends = time.monotonic() + _RACE_SECONDS_MAX
        turn = number
        while time.monotonic() < ends:
            tag = f"d-{number}-{turn}"
            turn += 1
            port = self.gateways[turn % len(self.gateways)].port
            sent_at = time.monotonic()
            heard = await ask(port, self.cluster.cell.key, tag, self.body)
            self.heard[tag] = heard
            self.asked[tag] = sent_at, time.monotonic()
            if not await may_go_on(heard, pause_seconds=0.2):
                return

    def watch(self, limit: int) -> None:
        """What is granted or spent, again and again; in a thread of its own."""
        with self.cluster.connect() as connection:
            while not self.is_over:
                began = time.monotonic()
                held = read_held(connection, limit)
                self.looks.append((began, time.monotonic(), held))
                time.sleep(0.01)

    def charged_most(self, tag: str) -> int:
        """The most that was held or spent while a request ran, by the looks around it and in it."""
        sent_at, answered_at = self.asked[tag]
        before = [held.charged for _, ended, held in self.looks if ended < sent_at]
        after = [held.charged for began, _, held in self.looks if began > answered_at]
        during = [
            held.charged
            for began, ended, held in self.looks
            if ended >= sent_at and began <= answered_at
        ]
        return max(before[-1:] + during + after[:1])


def run(findings: Findings, random_source: random.Random, *, requests: int) -> None:
    for is_killed in (False, True):
        with Cluster({"ingress.workers": 2, "metering.adopt_seconds": 1.0}) as cluster:
            _race(findings, cluster, requests, random_source if is_killed else None)


def _race(
    findings: Findings, cluster: Cluster, requests: int, random_source: random.Random | None
) -> None:
    body, estimate = _request()
    cluster.engine.control(
        tokens=_TOKENS, stall_before_head=_ENGINE_SECONDS, lie_usage=_exactly(body)
    )
    amount = requests * estimate
    limit = cluster.set_limit(cluster.cell.account, Measure.NANOUSD, amount).id
    gateways = [cluster.gateway.start(), cluster.add_gateway().start()]
    eventually(lambda: sum(g.metric("penstock_workers") for g in gateways) == 4, 30)
    race = _Race(cluster, gateways, body)
    began = time.monotonic()
    asyncio.run(_all(race, limit, random_source))
    seconds = time.monotonic() - began
    with cluster.connect() as connection:
        verdict, stuck = _settled(race, connection, limit)
        end = read_held(connection, limit)
        rows = read_rows(connection)
    served = sum(row.outcome == "ok" for row in rows)
    most = max(held.charged for _, _, held in race.looks)
    refusals = [heard for heard in race.heard.values() if heard.status == 429]
    room_for_one = amount - estimate
    wrong = sum(_is_wrong(race, heard, room_for_one) for heard in refusals)
    # All clients were told that nothing is left: then nothing may be left for one more.
    wrong += end.charged <= room_for_one
    costs = {heard.cost_nanousd for heard in race.heard.values() if heard.status == 200}
    assert costs == {estimate}, f"the engine did not use the estimate: {costs}, {estimate}"
    findings.requests += len(race.heard)
    findings.take(verdict)
    findings.budget_overrun += max(0, math.ceil((max(most, end.spent) - amount) / estimate))
    findings.wrong_refusals += wrong
    findings.stuck_leases += stuck
    findings.take_share(served / requests)
    print(f"d: {'one gateway killed' if random_source else 'undisturbed'}: {served} of {requests}"
          f" served in {seconds:.1f} s, {len(refusals)} refusals, {wrong} wrong, at most"
          f" {most / estimate:g} reserved or spent in {len(race.looks)} looks, {stuck} stuck,"
          f" {verdict}", flush=True)  # fmt: skip


def _request() -> tuple[dict[str, Any], int]:
    """A body, and what a budget reserves for it: by the bytes of the prompt, and max_tokens."""
    body = {"model": CHAT, "messages": prompt(), "max_tokens": _TOKENS}
    return body, cost_nanousd(Usage(_prompt_tokens(body), _TOKENS, 0), _PRICE)


def _prompt_tokens(body: dict[str, Any]) -> int:
    size = len(json.dumps(body["messages"]))
    return math.ceil(size / IngressSettings().prompt_bytes_per_token)


def _exactly(body: dict[str, Any]) -> dict[str, object]:
    """The usage that the engine reports: the estimate itself."""
    return {
        "prompt_tokens": _prompt_tokens(body),
        "completion_tokens": _TOKENS,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def _all(race: _Race, limit: int, random_source: random.Random | None) -> None:
    watcher = asyncio.get_running_loop().run_in_executor(None, race.watch, limit)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(race.client(number))
            if random_source is not None:
                await asyncio.sleep(random_source.uniform(0.7, 1.5))
                kill(race.gateways[1])
                await asyncio.sleep(1.0)
                await asyncio.to_thread(race.gateways[1].start)
    finally:
        race.is_over = True
        await watcher


def _is_wrong(race: _Race, refusal: Heard, room_for_one: int) -> bool:
    """By its own words, or by what Postgres showed before, meanwhile and afterwards."""
    found = _AMOUNTS.search(refusal.message)
    is_sensible = found is not None and Decimal(found[1]) < Decimal(found[2])
    return not is_sensible or race.charged_most(refusal.tag) <= room_for_one


def _settled(race: _Race, connection: psycopg.Connection, limit: int) -> tuple[Verdict, int]:
    """The ledger's verdict, and how many hold more than they used when nothing runs any more."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: not read_held(connection, limit).holders, 20)
    verdict = settle(connection, race.cluster.engine, race.heard, seconds=20)
    return verdict, read_held(connection, limit).holders
