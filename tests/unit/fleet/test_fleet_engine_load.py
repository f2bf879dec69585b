"""A keeper's claims about its engines: of whom, how fresh, and what a failure says."""

import msgspec
import pytest
from tests.unit.fleet.engine_pages import ALONE, engine_page

from penstock.errors import ReplicaUnreachable
from penstock.fleet.engine_load import EngineLoads
from penstock.fleet.health import EngineProbe
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.settings import FleetSettings
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.signal import EngineClaim
from penstock.testing.manual_clock import ManualClock


class Pages(EngineProbe):
    """Engines that answer with the page a test has written for them; None answers 404."""

    def __init__(self) -> None:
        super().__init__(FleetSettings())
        self.pages: dict[str, bytes | None] = {}
        self.asked: list[str] = []

    async def metrics(self, replica: Replica, timeout_seconds: float) -> bytes | None:
        assert timeout_seconds == 1.0
        url = replica.url
        self.asked.append(url)
        if url not in self.pages:
            raise ReplicaUnreachable
        return self.pages[url]


class Host:
    """A keeper's engines, and what it would tell of them."""

    def __init__(self) -> None:
        self.pages = Pages()
        self.clock = ManualClock()
        self.known = Known(10)
        self.loads = EngineLoads(self.known, self.pages, FleetSettings(), self.clock)

    def add(
        self, name: str, page: bytes | None, state: ReplicaState = ReplicaState.READY
    ) -> WatchedReplica:
        replica = Replica(ReplicaId(name), ModelId("m"), f"http://{name}", state, "m")
        entry = self.known.replicas[replica.id] = WatchedReplica(replica, "want", "process", 0.0)
        self.pages.pages[replica.url] = page
        return entry

    def claims(self) -> dict[str, EngineClaim]:
        return {claim.replica: claim for claim in self.loads.claims(self.clock.monotonic())}


@pytest.fixture
def host() -> Host:
    return Host()


async def test_only_ready_engines_are_asked_once_each_and_told_of(host: Host) -> None:
    host.add("ready", engine_page(running=3.0, waiting=1.0, kv_use=0.25))
    host.add("starting", engine_page(), ReplicaState.STARTING)
    host.add("draining", engine_page(), ReplicaState.DRAINING)
    assert host.claims() == {}
    await host.loads.look()
    assert host.pages.asked == ["http://ready"]
    ready = ReplicaId("ready")
    assert host.claims() == {
        ready: EngineClaim(
            ready,
            is_healthy=True,
            running=3,
            waiting=1,
            kv_use=0.25,
            kv_tokens=46_592,
            block_tokens=128,
        )
    }


async def test_rate_is_told_once_two_readings_show_it(host: Host) -> None:
    entry = host.add("r", engine_page())
    await host.loads.look()
    assert host.claims()["r"].prefill_rate == 0.0
    host.pages.pages[entry.replica.url] = ALONE
    await host.loads.look()
    assert host.claims()["r"].prefill_rate == pytest.approx(1025, abs=1)


async def test_an_engine_that_does_not_answer_is_sick_with_the_cache_it_had(host: Host) -> None:
    entry = host.add("r", engine_page(running=3.0))
    await host.loads.look()
    del host.pages.pages[entry.replica.url]
    await host.loads.look()
    claim = host.claims()["r"]
    assert not claim.is_healthy
    assert claim.kv_tokens == 46_592


async def test_an_engine_whose_health_fails_is_sick_though_its_metrics_answer(host: Host) -> None:
    entry = host.add("r", engine_page())
    await host.loads.look()
    entry.silent_since = 0.0
    assert not host.claims()["r"].is_healthy


async def test_an_engine_without_metrics_is_healthy_and_says_nothing_else(host: Host) -> None:
    host.add("r", None)
    await host.loads.look()
    assert host.claims() == {"r": EngineClaim("r", is_healthy=True)}


async def test_what_was_not_renewed_or_left_is_told_no_more(host: Host) -> None:
    stays, leaves = host.add("stays", engine_page()), host.add("leaves", engine_page())
    await host.loads.look()
    del host.known.replicas[leaves.replica.id]
    assert list(host.claims()) == ["stays"]
    host.clock.advance(2.9)
    assert list(host.claims()) == ["stays"]
    host.clock.advance(0.2)
    assert host.claims() == {}
    await host.loads.look()
    assert list(host.claims()) == [stays.replica.id]


async def test_claims_keep_within_what_a_message_may_say(host: Host) -> None:
    page = engine_page(running=1e30, waiting=1e30, kv_use=7.0)
    host.add("r", page.replace(b'kv_cache_size_tokens="46592"', b'kv_cache_size_tokens="1e30"'))
    await host.loads.look()
    data = msgspec.msgpack.encode(host.loads.claims(0.0))
    (claim,) = msgspec.msgpack.decode(data, type=list[EngineClaim])
    assert (claim.running, claim.kv_use, claim.kv_tokens) == (2**40, 1.0, 2**40)


async def test_only_an_engine_that_says_so_is_idle(host: Host) -> None:
    host.add("idle", engine_page())
    host.add("busy", engine_page(running=1.0))
    host.add("mute", None)
    await host.loads.look()
    host.clock.advance(2.0)
    await host.loads.look()
    figures = host.loads.figures(host.clock.monotonic())
    seconds = {str(name): load.idle_seconds for name, load in figures.items()}
    assert seconds == {"idle": 2.0, "busy": 0.0, "mute": 0.0}
