"""Postgres stopped under 100 requests/s: who may go on goes on, who is to be refused is refused."""

import asyncio
import time

import psycopg
from tests.chaos.cluster import Cluster, read_held
from tests.chaos.findings import Findings
from tests.chaos.ledger_check import settle
from tests.chaos.traffic import Heard, ask
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.cells.gateway_process import eventually

from penstock.policy import AccountBook
from penstock.records.account import OnOutage
from penstock.records.limit import Measure

_RATE = 100
_STRICT_RATE = 20
_BEFORE_SECONDS = 5.0
_AFTER_SECONDS = 5.0
_ROWS_SECONDS = 60.0
# A slice is a fiftieth: used up in seconds at this rate, so that most of the outage is beyond it.
_LIMIT = 20_000
_STRICT_LIMIT = 5_000


class _Load:
    """Asks at a steady rate, whether answers come or not, until it is told to stop."""

    def __init__(self, cluster: Cluster, key: str, name: str, rate: int) -> None:
        self._cluster = cluster
        self._key = key
        self._name = name
        self._pause = 1 / rate
        self.is_over = False
        self.heard: list[tuple[float, Heard]] = []

    async def run(self) -> None:
        began, count = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self.is_over:
                group.create_task(self._ask(count))
                count += 1
                await asyncio.sleep(max(0.0, began + count * self._pause - time.monotonic()))

    async def _ask(self, count: int) -> None:
        body = chat_body(CHAT, {"tokens": 5}, stream=count % 4 == 0)
        tag = f"c-{self._name}-{count}"
        heard = await ask(self._cluster.gateway.port, self._key, tag, body)
        self.heard.append((time.monotonic(), heard))

    def served(self, until: float) -> int:
        return sum(1 for at, heard in self.heard if at < until and heard.status == 200)

    def failed(self) -> list[Heard]:
        return [h for _, h in self.heard if h.status != 200 or not h.is_whole or h.message]


def run(findings: Findings, *, seconds: float) -> None:
    with Cluster({"ingress.workers": 2}) as cluster:
        strict, _, strict_key = cluster.cell.add_account("strict")
        cluster.cell.run(lambda store: AccountBook(store).set_on_outage(strict, OnOutage.REFUSE))
        cluster.set_limit(cluster.cell.account, Measure.REQUESTS, _LIMIT)
        strict_limit = cluster.set_limit(strict, Measure.REQUESTS, _STRICT_LIMIT).id
        cluster.gateway.start()
        eventually(lambda: cluster.gateway.metric("penstock_workers") == 2, 30)
        patient = _Load(cluster, cluster.cell.key, "patient", _RATE)
        refused = _Load(cluster, strict_key, "strict", _STRICT_RATE)
        asyncio.run(_outage(findings, cluster, (patient, refused), strict_limit, seconds))
        beyond = cluster.gateway.metric("penstock_beyond_leases_total")
        findings.failed_while_postgres_down += len(patient.failed())
        findings.ejected_replicas += cluster.gateway.log_text().count("replica ejected")
        heard = {h.tag: h for _, h in (*patient.heard, *refused.heard)}
        findings.requests += len(heard)
        asked_at = time.monotonic()
        with cluster.connect() as connection:
            verdict = settle(connection, cluster.engine, heard, seconds=_ROWS_SECONDS)
        print(f"c: all rows were there {time.monotonic() - asked_at:.1f} s later", flush=True)
        findings.take(verdict)
        print(f"c: {seconds:.0f} s without Postgres: {len(patient.heard)} asked,"
              f" {len(patient.failed())} failed {patient.failed()[:2]}, {beyond:.0f}"
              f" beyond leases; of the strict account {refused.served(time.monotonic())} of"
              f" {len(refused.heard)} served; {verdict}", flush=True)  # fmt: skip


async def _outage(
    findings: Findings, cluster: Cluster, loads: tuple[_Load, _Load], limit: int, seconds: float
) -> None:
    strict = loads[1]
    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load.run())
        await asyncio.sleep(_BEFORE_SECONDS)
        leased = await asyncio.to_thread(_freeze_and_stop, cluster, limit)
        before = strict.served(time.monotonic())
        await asyncio.sleep(seconds)
        served = strict.served(time.monotonic())
        findings.served_beyond_leases += max(0, served - leased)
        print(f"c: the strict account had leased {leased} in all, and was served {served},"
              f" {served - before} of them without Postgres", flush=True)  # fmt: skip
        await asyncio.to_thread(cluster.postgres.start)
        await asyncio.sleep(_AFTER_SECONDS)
        if strict.served(time.monotonic()) <= served:
            raise AssertionError("the strict account was not served when Postgres was back")
        for load in loads:
            load.is_over = True


def _freeze_and_stop(cluster: Cluster, limit: int) -> int:
    """Stop Postgres; what was leased by then. No lease can be granted between the two."""
    with psycopg.connect(cluster.dsn) as connection:
        connection.execute("lock table leases in access exclusive mode")
        charged = read_held(connection, limit).charged
        cluster.postgres.stop()
        # The server ended this session with all others.
        connection.close()
    return charged
