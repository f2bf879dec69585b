"""Workers of one host over real sockets: they hear each other, and nothing hostile harms them."""

import asyncio
import contextlib
import os
import random
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.signals_worker import CELL, Worker, eventually

from penstock.clock import SystemClock
from penstock.records.signal import EngineClaim, LoadClaim, PeerState, SentPrompt, Signal
from penstock.signals import (
    Announcer,
    CellKey,
    Drop,
    SignalCounts,
    SignalsSettings,
    keeper_identity,
)
from penstock.signals.envelope import Envelope
from penstock.signals.local import LocalSockets


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: its paths are too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield folder / "signals"
    shutil.rmtree(folder)


@pytest.fixture
def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def taken(folder: Path) -> Path:
    """Where the folder should be there is a file."""
    folder.write_text("in the way")
    return folder


def settings(folder: Path, **others: float) -> SignalsSettings:
    return SignalsSettings(folder=str(folder), interval_seconds=0.05, **others)  # type: ignore[arg-type]


def sockets(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sock"))


async def test_workers_hear_each_others_claims_and_prompts_once(folder: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(Worker(settings(folder)).running()) for _ in range(3)
        ]
        one, two, three = workers
        await eventually(lambda: all(w.listener.state is PeerState.HEARD for w in workers))
        await eventually(lambda: all(w.exchange.peers.known() == 2 for w in workers))
        claim = LoadClaim("r", 1000, 300, 0.5, 0.5, 2, 1, 5000)
        one.listener.loads = [claim]
        one.listener.to_send = [SentPrompt(n, "r", 0, [n], [10]) for n in range(5)]
        sender = one.identity.sender
        await eventually(lambda: two.listener.heard[sender].loads == [claim])
        await eventually(lambda: three.listener.sessions == [0, 1, 2, 3, 4])
        # Two more messages repeat them, and are not heard as news.
        await asyncio.sleep(0.3)
        assert two.listener.sessions == [0, 1, 2, 3, 4]
        assert {w.identity.host for w in workers} == {one.identity.host}
    assert sockets(folder) == []


async def test_a_worker_alone_says_so(folder: Path) -> None:
    async with Worker(settings(folder)).running() as one:
        await eventually(lambda: one.listener.state is PeerState.ALONE)
        (own,) = sockets(folder)
        assert own.stat().st_mode & 0o777 == 0o600


async def test_a_worker_that_ends_is_not_missed(folder: Path) -> None:
    async with Worker(settings(folder)).running() as one:
        async with Worker(settings(folder)).running() as two:
            await eventually(lambda: two.is_heard_by(one))
        await eventually(lambda: one.listener.state is PeerState.ALONE)
        assert one.listener.forgotten == [two.identity.sender]


async def test_a_restarted_worker_is_the_peer_that_was_missed(folder: Path) -> None:
    async with Worker(settings(folder)).running() as one:
        async with Worker(settings(folder)).running() as two:
            await eventually(lambda: two.is_heard_by(one))
        async with Worker(settings(folder)).running() as again:
            assert again.identity == two.identity
            await eventually(lambda: again.is_heard_by(one) and one.is_heard_by(again))
            assert one.exchange.peers.known() == 1


async def test_without_a_transport_others_are_taken_to_be_silent(folder: Path) -> None:
    quiet = SignalsSettings(folder=str(folder), transport="off")
    async with Worker(quiet).running() as one:
        await eventually(lambda: one.listener.state is PeerState.SILENT)
    assert sockets(folder) == []


async def test_sockets_of_dead_workers_are_removed(made: Path) -> None:
    folder = made
    dead = folder / f"{CELL.mark:.8}-{1:016x}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(dead))
    foreign = folder / f"ffffffff-{1:016x}.sock"
    foreign.touch()
    async with Worker(settings(folder)).running():
        await eventually(lambda: not dead.exists())
        assert foreign.exists()


async def test_a_folder_that_is_swept_is_made_again(folder: Path) -> None:
    async with (
        Worker(settings(folder)).running() as one,
        Worker(settings(folder)).running() as two,
    ):
        await eventually(lambda: one.is_heard_by(two) and two.is_heard_by(one))
        shutil.rmtree(folder)
        await eventually(lambda: len(sockets(folder)) == 2)
        before = two.exchange.counts.heard
        await eventually(lambda: two.exchange.counts.heard > before)


async def test_a_worker_that_does_not_read_costs_the_others_nothing(folder: Path) -> None:
    async with (
        Worker(settings(folder)).running() as one,
        Worker(settings(folder)).running() as two,
    ):
        stuck = folder / f"{CELL.mark:.8}-{1:016x}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
            deaf.bind(str(stuck))
            one.listener.loads = [
                LoadClaim(f"r{n:036}", 1000, 300, 0.5, 0.5, 2, 1, 5000) for n in range(500)
            ]
            await eventually(lambda: one.exchange.counts.dropped[Drop.QUEUE_FULL] > 10)
            before = two.exchange.counts.heard
            await eventually(lambda: two.exchange.counts.heard > before + 10)
            assert one.is_heard_by(two)


async def test_hostile_datagrams_are_dropped_by_reason_and_change_nothing(folder: Path) -> None:
    async with (
        Worker(settings(folder, peers_max=8)).running() as one,
        Worker(settings(folder, peers_max=8)).running() as two,
    ):
        await eventually(lambda: two.is_heard_by(one))
        target = folder / f"{CELL.mark:.8}-{one.identity.sender:016x}.sock"
        number = int(SystemClock().now() * 1e9)
        right, wrong = Envelope(CELL.key, 2**20), Envelope(b"x" * 32, 2**20)
        honest = right.seal(Signal(99, number, "host"))
        seed = random.Random(4)
        hostile = [
            *(seed.randbytes(seed.randrange(200)) for _ in range(50)),
            *(honest[:cut] for cut in range(len(honest))),
            wrong.seal(Signal(98, number, "host")),
            right.seal(Signal(97, number - 10**15, "host")),
            right.seal(Signal(one.identity.sender, number, "host")),
            *[honest] * 20,
            *(right.seal(Signal(1000 + n, number, "host")) for n in range(30)),
            bytes(100_000),
        ]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as attacker:
            attacker.setblocking(False)
            for data in hostile:
                while True:
                    try:
                        attacker.sendto(data, str(target))
                        break
                    except BlockingIOError:
                        await asyncio.sleep(0.001)
        dropped = one.exchange.counts.dropped
        await eventually(lambda: dropped[Drop.TOO_LARGE] == 1)
        assert dropped[Drop.FORGED] == 50 + len(honest) + 1
        assert dropped[Drop.REPEATED] == 19
        assert dropped[Drop.CLOCK] == 1
        assert dropped[Drop.OWN] == 1
        assert dropped[Drop.TOO_MANY] == 30 - 6
        before = one.exchange.counts.heard
        await eventually(lambda: one.exchange.counts.heard > before)
        assert two.is_heard_by(one)
        assert one.exchange.counts.failures == 0


async def test_a_liar_with_the_key_is_passed_on_as_it_is_and_ends_nothing(folder: Path) -> None:
    """Clamping a claim is routing's work; here it must only arrive, and harm no loop."""
    lie = LoadClaim("r", 2**40, 2**40, 0.0, 0.0, 2**40, 2**40, 2**40)
    async with Worker(settings(folder)).running() as one:
        async with Worker(settings(folder)).running() as liar:
            liar.listener.loads = [lie]
            sender = liar.identity.sender
            await eventually(lambda: sender in one.listener.heard)
            await eventually(lambda: one.listener.heard[sender].loads == [lie])
        await eventually(lambda: sender in one.listener.forgotten)


async def test_another_cell_in_the_same_folder_is_not_heard(folder: Path) -> None:
    other = CellKey("fedcba9876543210" * 4, b"o" * 32)
    async with (
        Worker(settings(folder)).running() as one,
        Worker(settings(folder), other).running() as two,
    ):
        await eventually(lambda: min(one.exchange.counts.sent, two.exchange.counts.sent) > 5)
        assert one.listener.state is PeerState.ALONE
        assert two.listener.state is PeerState.ALONE


async def test_a_keeper_is_heard_and_is_no_peer(folder: Path) -> None:
    claims = [EngineClaim("r", is_healthy=True, running=3, kv_tokens=1000)]
    keeper = keeper_identity("keeper-1")
    announcer = Announcer(keeper, CELL, settings(folder), SystemClock(), lambda now: claims)
    async with Worker(settings(folder)).running() as one:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(announcer.run())
            await eventually(lambda: keeper.sender in one.listener.heard)
            assert one.listener.heard[keeper.sender].engines == claims
            assert one.listener.state is PeerState.ALONE
            task.cancel()
        await eventually(lambda: keeper.sender in one.listener.forgotten)
        assert one.listener.state is PeerState.ALONE


async def test_a_keeper_without_engines_is_quiet(folder: Path) -> None:
    announcer = Announcer(
        keeper_identity("k"), CELL, settings(folder), SystemClock(), lambda now: []
    )
    async with Worker(settings(folder)).running() as one, asyncio.TaskGroup() as group:
        task = group.create_task(announcer.run())
        await eventually(lambda: one.exchange.counts.sent > 5)
        assert announcer.counts.sent == 0
        assert one.listener.heard == {}
        task.cancel()


async def test_a_router_that_fails_ends_no_loop(folder: Path) -> None:
    def fail(now: float) -> None:
        raise RuntimeError("a bug")

    async with (
        Worker(settings(folder)).running() as one,
        Worker(settings(folder)).running() as two,
    ):
        await eventually(lambda: two.is_heard_by(one))
        one.listener.tell = fail  # type: ignore[assignment, method-assign]
        await eventually(lambda: one.exchange.counts.failures > 3)
        # It says nothing, so it is silent for the others; what it hears it still heeds.
        await eventually(lambda: two.listener.state is PeerState.SILENT)
        assert one.listener.state is PeerState.HEARD


async def test_a_folder_that_cannot_be_had_means_silence_until_it_can(taken: Path) -> None:
    async with Worker(settings(taken)).running() as one:
        await eventually(lambda: one.listener.state is PeerState.SILENT)
        assert one.table is None
        os.unlink(taken)  # noqa: PTH108 - one call, in a test
        await eventually(lambda: one.listener.state is PeerState.ALONE)


def test_sending_from_nowhere_is_no_error(folder: Path) -> None:
    line = LocalSockets(settings(folder), CELL.mark, 1, SignalCounts())
    line.send(b"nobody is there")
    assert not line.is_up


def test_sending_is_sure_while_the_same_peers_are_there_and_have_room(made: Path) -> None:
    line = LocalSockets(settings(made), CELL.mark, 1, SignalCounts())
    assert line.send(b"to nobody, as before")
    path = made / f"{CELL.mark:.8}-{2:016x}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as peer:
        peer.bind(str(path))
        assert not line.send(b"somebody new has missed what was said before")
        sent = [line.send(b"more") for _ in range(1000)]
        # Until its queue is full.
        assert sent == sorted(sent, reverse=True)
        assert sent[0]
        assert not sent[-1]
        with contextlib.suppress(BlockingIOError):
            while peer.recv(100):
                pass
        assert line.send(b"there is room again")
    assert not line.send(b"it is dead")
    assert not line.send(b"and gone")
    assert line.send(b"to nobody, as before")
