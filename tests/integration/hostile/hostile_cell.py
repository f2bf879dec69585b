"""The gateway under hostile fire: quick limits, two engines, and what is left of it afterwards."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PLAIN,
    PRIVATE,
    Cell,
    CellFactory,
    chat_body,
)
from tests.integration.cells.gateway_process import Settings, eventually
from tests.integration.cells.raw_client import post_bytes
from tests.integration.hostile.hostile_shot import Shot
from tests.integration.hostile.hostile_traffic import Traffic

from penstock.testing import ScriptedEngine

BODY_BYTES_MAX = 2**20
ORIGIN = "https://console.example"
HEADER_SECONDS = 1.0
STALL_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 3
_MODELS = (CHAT, PLAIN, NATIVE, PRIVATE)
_QUICK: Settings = {
    "ingress.header_seconds": HEADER_SECONDS,
    "ingress.body_bytes_max": BODY_BYTES_MAX,
    "ingress.keepalive_seconds": 0.2,
    "ingress.client_stall_seconds": STALL_SECONDS,
    "ingress.cors_origins": [ORIGIN],
    "engine.first_byte_seconds": 3.0,
    "engine.between_bytes_seconds": 3.0,
    "engine.total_seconds": 5.0,
    "engine.event_bytes_max": 65536,
    "engine.answer_bytes_max": 2**18,
    "admission.wait_seconds_max": 1.0,
    "policy.miss_refresh_seconds": 0.02,
}
# As it comes, but for the times. For clients that are slow, greedy or many.
PATIENT: Settings = {
    "ingress.client_stall_seconds": STALL_SECONDS,
    "ingress.keep_alive_seconds": KEEP_ALIVE_SECONDS,
    "ingress.body_bytes_max": 32 * 2**20,
    "engine.first_byte_seconds": 30,
    "engine.between_bytes_seconds": 30,
    "engine.total_seconds": 60,
    "engine.answer_bytes_max": 64 * 2**20,
    "engine.event_bytes_max": 4 * 2**20,
}
# What a worker may hold more than at its start: caches that fill once, the allocator's slack.
_DESCRIPTORS_SLACK = 6
_RSS_GROWTH_MAX = 96 * 2**20
_CRASH_WORDS = ("request crashed", "Traceback", "timer crashed", "never retrieved", "Fatal error")


class Vitals(msgspec.Struct, frozen=True):
    """What a worker holds at a quiet moment."""

    pids: list[int]
    descriptors: int
    rss: int


class HostileCell:
    """A cell, its engines, and the traffic that goes to it."""

    def __init__(self, cell: Cell, engines: list[ScriptedEngine], traffic: Traffic) -> None:
        self.cell = cell
        self.engines = engines
        self.traffic = traffic
        self.stranger = cell.add_account("stranger")
        # Warm, so that what a worker makes once is not counted as growth.
        for _ in range(20):
            self.check_that_it_serves()
        traffic.close()
        self._first = self.vitals()

    def check_that_it_serves(self) -> None:
        """A plain request and a plain stream are served as if nothing had happened."""
        shots = [
            Shot(
                "plain", post_bytes("/v1/chat/completions", chat_body(stream=stream), self.cell.key)
            )
            for stream in (False, True)
        ]
        assert sorted(self.traffic.fire(shots)) == ["200", "stream"]

    def vitals(self) -> Vitals:
        self.wait_until_quiet()
        pids = sorted(self.cell.gateway.worker_pids())
        own = [_own_descriptors(pid) for pid in pids]
        held = self.cell.gateway.metric("penstock_engine_connections")
        return Vitals(pids, sum(own) - int(held), sum(_rss(pid) for pid in pids))

    def wait_until_quiet(self) -> None:
        """Until nobody is connected, nothing runs, and no engine is left out."""
        self.cell.wait_until_idle()
        gateway = self.cell.gateway
        eventually(lambda: gateway.metric("penstock_client_connections") == 0)
        for engine in self.engines:
            eventually(lambda e=engine: e.state().running == 0)  # type: ignore[misc]

    def check_that_it_is_over(self) -> None:
        """Nobody is connected, nothing is in flight, and it serves."""
        self.traffic.close()
        self.wait_until_quiet()
        self.check_that_it_serves()
        self.traffic.close()

    def check_aftermath(self, rss_growth_max: int = _RSS_GROWTH_MAX) -> str:
        """The worker lives, serves, holds no more than before, and wrote of no crash."""
        self.check_that_it_is_over()
        now = self.vitals()
        first = self._first
        assert now.pids == first.pids, "a worker was lost"
        gateway = self.cell.gateway
        assert gateway.metric("penstock_workers") == len(now.pids), "a worker gives no metrics"
        assert now.descriptors <= first.descriptors + _DESCRIPTORS_SLACK, (first, now)
        assert now.rss - first.rss < rss_growth_max, (first, now)
        held = gateway.metric("penstock_engine_connections")
        assert 0 <= held < 1024, held
        log = gateway.log_text()
        for word in _CRASH_WORDS:
            assert word not in log, log[max(log.find(word) - 500, 0) : log.find(word) + 3000]
        grown = (now.rss - first.rss) / 2**20
        return f"{now.descriptors - first.descriptors:+d} descriptors, {grown:+.1f} MiB"


@contextmanager
def hostile_cell(cells: CellFactory, settings: Settings | None = None) -> Iterator[HostileCell]:
    _raise_file_limit()
    with cells.open({**_QUICK, **(settings or {})}) as cell:
        first = cell.set_up(*_MODELS)
        second = cell.add_engine()
        for model in _MODELS:
            cell.enroll(second.url, model)
        cell.wait_for_replicas(CHAT, 2)
        with Traffic(cell.gateway.port) as traffic:
            yield HostileCell(cell, [first, second], traffic)


def _raise_file_limit() -> None:
    """For thousands of connections, here and in the children, which inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _own_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _rss(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096
