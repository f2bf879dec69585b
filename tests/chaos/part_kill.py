"""kill -9 of a gateway, or of one of its workers, with 200 streams open, at random moments."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.chaos.cluster import Cluster, kill, kill_worker
from tests.chaos.findings import Findings
from tests.chaos.ledger_check import settle
from tests.chaos.traffic import Heard, ask
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.cells.gateway_process import eventually

STREAMS = 200
_OTHERS = 50
_INTERVAL_SECONDS = 0.1
# Longer than any kill waits, so that all streams are open then; the others end by themselves.
_STREAM_TOKENS = 60, 80
_OTHER_TOKENS = 2, 50
_STRIKE_SECONDS = 0.3, 5.0
_ROWS_SECONDS = 20.0
_WORKERS = 2


def run(findings: Findings, random_source: random.Random, *, moments: int) -> None:
    with Cluster({"ingress.workers": _WORKERS, "metering.adopt_seconds": 1.0}) as cluster:
        cluster.gateway.start()
        heard: dict[str, Heard] = {}
        for moment in range(moments):
            # Two of three times everything dies, and one worker of two the third time.
            is_whole = moment % 3 != 2
            after = random_source.uniform(*_STRIKE_SECONDS)
            _wait_for_workers(cluster)

            def strike(*, is_whole: bool = is_whole) -> None:
                if is_whole:
                    kill(cluster.gateway)
                else:
                    kill_worker(cluster.gateway)

            answers = asyncio.run(_burst(cluster, _bodies(random_source, moment), after, strike))
            heard |= {answer.tag: answer for answer in answers}
            if is_whole:
                cluster.gateway.start()
            whole = sum(answer.is_whole for answer in answers)
            with cluster.connect() as connection:
                verdict = settle(connection, cluster.engine, heard, seconds=_ROWS_SECONDS)
            who = "all" if is_whole else "one worker"
            print(f"a: killed {who} after {after:.2f} s, {whole} of {len(answers)} answers came to"
                  f" their end: {verdict}", flush=True)  # fmt: skip
        findings.requests += len(heard)
        findings.take(verdict)


def _bodies(random_source: random.Random, moment: int) -> dict[str, dict[str, Any]]:
    """By tag. Tokens come one by one, so that a kill cuts them."""
    bodies = {}
    for number in range(STREAMS + _OTHERS):
        is_long = number < STREAMS
        tokens = random_source.randint(*(_STREAM_TOKENS if is_long else _OTHER_TOKENS))
        script = {"tokens": tokens, "interval": _INTERVAL_SECONDS}
        stream = is_long or random_source.random() < 0.5
        bodies[f"a-{moment}-{number}"] = chat_body(CHAT, script, stream=stream)
    return bodies


async def _burst(
    cluster: Cluster, bodies: dict[str, dict[str, Any]], after: float, strike: Callable[[], None]
) -> list[Heard]:
    port, key = cluster.gateway.port, cluster.cell.key
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(port, key, tag, body)) for tag, body in bodies.items()]
        await asyncio.sleep(after)
        strike()
    return [task.result() for task in tasks]


def _wait_for_workers(cluster: Cluster) -> None:
    eventually(lambda: cluster.gateway.metric("penstock_workers") == _WORKERS, 30)
