"""Traces take little memory; a collector that hangs slows nobody down, and nothing grows."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.cells.trace_collector import TraceCollector

_CLIENTS: Final = 4
_WAITING_MAX: Final = 1000
# The short form has too few requests for the long one's bound.
_SECONDS, _P95_RATIO_MAX = 12.0, 1.10
_SECONDS_FULL, _P95_RATIO_MAX_FULL = 300.0, 1.01
# What an allocator keeps back between two readings.
_GROWN_KB_MAX: Final = 2048
# Of a gateway that traces all requests, beside one that traces none.
_TRACING_KB_MAX: Final = 3072
# Taken, and not read: reading would cost this process more than the gateways.
_TAKEN: Final = 202


@pytest.mark.timeout(480)
def test_a_hung_collector_slows_nobody_down(cells: CellFactory, full: bool) -> None:
    seconds = _SECONDS_FULL if full else _SECONDS
    with ExitStack() as stack:
        plain = stack.enter_context(cells.open())
        taken, hung = [stack.enter_context(TraceCollector()) for _ in range(2)]
        traced = [
            stack.enter_context(cells.open(_settings(each, most)))
            for each, most in ((taken, 10 * _WAITING_MAX), (hung, _WAITING_MAX))
        ]
        arms = [plain, *traced]
        for cell in arms:
            cell.set_up(CHAT)
        taken.status = hung.status = _TAKEN
        _ask(arms, 3.0)
        tracing_kb = _resident_kb(traced[0]) - _resident_kb(plain)
        assert min(taken.posts, hung.posts) > 0
        hung.status = 0
        # Until as many traces wait as ever may.
        while not traced[1].gateway.metric("penstock_traces_dropped_total"):
            _ask(arms, 2.0)
        before = [_resident_kb(cell) for cell in arms]
        times = _ask(arms, seconds)
        grown = [_resident_kb(cell) - kb for cell, kb in zip(arms, before, strict=True)]
        dropped = traced[0].gateway.metric("penstock_traces_dropped_total")
    off, on, beside_hung = (statistics.quantiles(each, n=20)[-1] for each in times)
    print(f"{len(times[0])} requests each; p95 {beside_hung / on:.3f} of a collector that answers,")
    print(f"{beside_hung / off:.3f} of no traces; grown by {grown} kB; traces take {tracing_kb} kB")
    assert dropped == 0
    assert beside_hung / on <= (_P95_RATIO_MAX_FULL if full else _P95_RATIO_MAX)
    assert grown[2] <= max(0, grown[0]) + _GROWN_KB_MAX
    assert tracing_kb <= _TRACING_KB_MAX


def _settings(collector: TraceCollector, waiting_max: int) -> dict[str, object]:
    return {
        "telemetry.traces_url": collector.url,
        "telemetry.traces_share": 1.0,
        "telemetry.traces_waiting_max": waiting_max,
        "telemetry.traces_batch": 100,
    }


def _ask(arms: Sequence[Cell], seconds: float) -> list[list[float]]:
    """Ask all in turn, so that whatever else the machine does slows all of them down alike."""
    until = time.monotonic() + seconds

    def ask(client: int) -> list[list[float]]:
        times = [list[float]() for _ in arms]
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(cell.gateway.port)) for cell in arms]
            first = client
            while time.monotonic() < until:
                # Each is asked first, second and third as often as the others.
                first += 1
                for step in range(len(arms)):
                    arm = (first + step) % len(arms)
                    times[arm].append(_time(clients[arm], arms[arm]))
        return times

    with ThreadPoolExecutor(_CLIENTS) as pool:
        found = list(pool.map(ask, range(_CLIENTS)))
    return [[taken for times in found for taken in times[arm]] for arm in range(len(arms))]


def _time(client: RawClient, cell: Cell) -> float:
    began = time.perf_counter()
    client.send(post_bytes("/v1/chat/completions", chat_body(), cell.key))
    answer = client.read_answer()
    took = time.perf_counter() - began
    assert answer.status == 200, answer.body
    return took


def _resident_kb(cell: Cell) -> int:
    [pid] = cell.gateway.worker_pids()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} has no memory")
