"""kill -9 between journal and Postgres, and the same journal replayed: nothing twice."""

import asyncio
import random
import shutil
import time
from pathlib import Path

import psycopg
from tests.chaos.cluster import Cluster, kill, read_held
from tests.chaos.findings import Findings
from tests.chaos.ledger_check import Row, Verdict, read_rows, settle
from tests.chaos.traffic import Heard, ask
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.cells.gateway_process import eventually

from penstock.records.limit import Measure

_SHORT_STREAMS = 60
_LONG_STREAMS = 20
_REPLAYS = 2
_WAITING = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'insert'"


def run(findings: Findings, random_source: random.Random, *, rounds: int) -> None:
    with Cluster({"metering.adopt_seconds": 1.0}) as cluster:
        limit = cluster.set_limit(cluster.cell.account, Measure.TOKENS, 10**9).id
        heard: dict[str, Heard] = {}
        cluster.gateway.start()
        # The day's partition is made, so that what hangs is the insert.
        _first(cluster, heard)
        for number in range(rounds):
            kept = cluster.folder / f"kept-{number}"
            delay = None if number % 2 == 0 else random_source.uniform(0, 0.03)
            heard |= asyncio.run(_round(cluster, number, delay, kept))
            cluster.gateway.start()
            verdict = _judge(cluster, limit, heard)
            for _ in range(_REPLAYS):
                cluster.gateway.stop()
                _put_back(cluster.cell.journal, kept)
                cluster.gateway.start()
                _wait_until_adopted(cluster.cell.journal, kept)
                verdict = _judge(cluster, limit, heard)
            when = (
                "in the transaction" if delay is None else f"{delay * 1000:.0f} ms after it went on"
            )
            print(f"b: killed {when}, replayed {_REPLAYS} times: {verdict}", flush=True)
        findings.requests += len(heard)
        findings.take(verdict)


def _first(cluster: Cluster, heard: dict[str, Heard]) -> None:
    first = asyncio.run(ask(cluster.gateway.port, cluster.cell.key, "b-first", chat_body(CHAT)))
    assert first.status == 200, first
    heard[first.tag] = first
    with cluster.connect() as connection:
        eventually(lambda: len(read_rows(connection)) == 1)


async def _round(
    cluster: Cluster, number: int, delay: float | None, kept: Path
) -> dict[str, Heard]:
    """Hang the drain by a lock, kill the gateway, keep its journal; `delay` after the unlocking."""
    port, key = cluster.gateway.port, cluster.cell.key
    with psycopg.connect(cluster.dsn) as locker, cluster.connect() as watcher:
        locker.execute("lock table usage_attempts in access exclusive mode")
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[Heard]] = []
            for count, script in (
                (_SHORT_STREAMS, {"tokens": 5}),
                (_LONG_STREAMS, {"tokens": 400, "interval": 0.05}),
            ):
                for _ in range(count):
                    body = chat_body(CHAT, script, stream=True)
                    tag = f"b-{number}-{len(tasks)}"
                    tasks.append(group.create_task(ask(port, key, tag, body)))
            await asyncio.gather(*tasks[:_SHORT_STREAMS])
            await asyncio.to_thread(
                eventually, lambda: bool(watcher.execute(_WAITING).fetchone()), 20
            )
            if delay is not None:
                locker.rollback()
                await asyncio.sleep(delay)
            kill(cluster.gateway)
            shutil.copytree(cluster.cell.journal, kept)
            locker.rollback()
    return {task.result().tag: task.result() for task in tasks}


def _put_back(journal: Path, kept: Path) -> None:
    for folder in kept.iterdir():
        if folder.is_dir():
            shutil.copytree(folder, journal / folder.name)


def _wait_until_adopted(journal: Path, kept: Path) -> None:
    names = [folder.name for folder in kept.iterdir() if folder.is_dir()]
    assert names, "there was no journal to replay"
    eventually(lambda: not any((journal / name).exists() for name in names), 20)
    time.sleep(0.2)


def _judge(cluster: Cluster, limit: int, heard: dict[str, Heard]) -> Verdict:
    def has_spent_as_much(rows: list[Row], verdict: Verdict) -> None:
        tokens = sum((row.prompt_tokens or 0) + (row.output_tokens or 0) for row in rows)
        spent = read_held(connection, limit).spent
        if spent != tokens:
            verdict.note("double", f"the limit has {spent} tokens spent, the rows have {tokens}")

    with cluster.connect() as connection:
        return settle(connection, cluster.engine, heard, seconds=20, also=has_spent_as_much)
