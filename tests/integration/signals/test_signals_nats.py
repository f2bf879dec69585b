"""Two hosts with two workers each over a real NATS server, which also fails."""

import asyncio
import contextlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.cells.gateway_process import free_port
from tests.integration.cells.signals_worker import CELL, Worker, eventually

from penstock.records.signal import LoadClaim, PeerState, SentPrompt
from penstock.signals import CellKey, Drop, SignalCounts, SignalsSettings
from penstock.signals.nats import NatsLine, find_problem

CLAIM = LoadClaim("r", 1000, 300, 0.5, 0.5, 2, 1, 5000)


class NatsServer:
    """nats-server on a port of its own, ended by its pid."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._log = folder / "nats.log"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = self._begin()
        await eventually(self._answers, 20)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _begin(self) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("nats-server")
        command = [str(program), "-a", "127.0.0.1", "-p", str(self.port), "-l", str(self._log)]
        return subprocess.Popen([*command, *self._arguments])

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder)
    await server.start()
    yield server
    server.stop()


def settings(folder: Path, server: NatsServer, host: str) -> SignalsSettings:
    return SignalsSettings(
        transport="nats",
        folder=str(folder / host),
        nats_url=server.url,
        nats_retry_seconds=0.1,
    )


@contextlib.asynccontextmanager
async def two_hosts(folder: Path, server: NatsServer) -> AsyncIterator[list[Worker]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Worker(settings(folder, server, host)).running())
            for host in ("a", "a", "b", "b")
        ]


def all_hear_all(workers: list[Worker]) -> bool:
    return all(
        worker.listener.state is PeerState.HEARD
        and worker.exchange.peers.known() == len(workers) - 1
        for worker in workers
    )


async def test_workers_of_two_hosts_hear_each_other_once(folder: Path, server: NatsServer) -> None:
    async with two_hosts(folder, server) as workers:
        await eventually(lambda: all_hear_all(workers))
        first, second, third, fourth = workers
        assert first.identity.host == second.identity.host
        assert first.identity.host != third.identity.host == fourth.identity.host
        first.listener.loads = [CLAIM]
        first.listener.to_send = [SentPrompt(n, "r", 0, [n], [10]) for n in range(5)]
        sender = first.identity.sender
        heard = [worker.listener for worker in workers[1:]]
        await eventually(lambda: all(each.heard[sender].loads == [CLAIM] for each in heard))
        await eventually(lambda: all(each.sessions == [0, 1, 2, 3, 4] for each in heard))
        before = fourth.exchange.counts.heard
        await eventually(lambda: fourth.exchange.counts.heard > before + 10)
        assert all(w.listener.sessions == [0, 1, 2, 3, 4] for w in workers[1:])
        assert all(w.exchange.counts.failures == 0 for w in workers)


async def test_the_end_of_a_worker_is_heard_on_the_other_host(
    folder: Path, server: NatsServer
) -> None:
    async with Worker(settings(folder, server, "a")).running() as one:
        async with Worker(settings(folder, server, "b")).running() as two:
            await eventually(lambda: all_hear_all([one, two]))
        await eventually(lambda: one.listener.state is PeerState.ALONE)
        assert one.listener.forgotten == [two.identity.sender]


async def test_a_lost_server_is_noticed_within_a_second_and_found_again(
    folder: Path, server: NatsServer
) -> None:
    async with two_hosts(folder, server) as workers:
        await eventually(lambda: all_hear_all(workers))
        first, second, third, _ = workers
        server.stop()
        seconds = await eventually(
            lambda: all(w.listener.state is PeerState.SILENT for w in workers)
        )
        # A second of silence and a look, with room for a busy machine.
        assert seconds < first.settings.silence_seconds + first.settings.interval_seconds + 1
        await eventually(lambda: third.identity.sender in first.listener.forgotten)
        # Those of one host still hear each other.
        assert second.is_heard_by(first)
        await server.start()
        await eventually(lambda: all_hear_all(workers), 20)
        assert third.is_heard_by(first)


async def test_a_worker_begins_without_a_server_and_finds_it(folder: Path) -> None:
    server = NatsServer(folder)
    try:
        async with two_hosts(folder, server) as workers:
            await eventually(lambda: all(w.listener.state is PeerState.SILENT for w in workers))
            await server.start()
            await eventually(lambda: all_hear_all(workers), 20)
    finally:
        server.stop()


async def test_another_cell_on_the_same_server_is_not_heard(
    folder: Path, server: NatsServer
) -> None:
    same_subject = CellKey(CELL.mark, b"o" * 32)
    other_cell = CellKey("fedcba9876543210" * 4, CELL.key)
    async with (
        Worker(settings(folder, server, "a")).running() as one,
        Worker(settings(folder, server, "b"), same_subject).running() as two,
        Worker(settings(folder, server, "c"), other_cell).running() as three,
    ):
        await eventually(lambda: one.exchange.counts.dropped[Drop.FORGED] > 3)
        assert [w.listener.heard for w in (one, two, three)] == [{}, {}, {}]
        assert one.listener.state is PeerState.ALONE


@pytest.mark.parametrize("user", ["me", ""])
async def test_a_password_or_token_is_read_from_its_file(folder: Path, user: str) -> None:
    (folder / "right").write_text("open sesame\n")
    (folder / "wrong").write_text("open barley\n")
    asked = ("--user", user, "--pass", "open sesame") if user else ("--auth", "open sesame")
    server = NatsServer(folder, *asked)
    await server.start()

    def with_password(host: str, name: str) -> SignalsSettings:
        return msgspec.structs.replace(
            settings(folder, server, host),
            nats_user=user,
            nats_password_file=str(folder / name),
        )

    try:
        async with (
            Worker(with_password("a", "right")).running() as one,
            Worker(with_password("b", "right")).running() as two,
            Worker(with_password("c", "wrong")).running() as shut_out,
        ):
            await eventually(lambda: all_hear_all([one, two]))
            assert shut_out.listener.state is PeerState.SILENT
            assert shut_out.listener.heard == {}
            # It is let in as soon as its file is right, without a restart.
            (folder / "wrong").write_text("open sesame\n")
            await eventually(lambda: all_hear_all([one, two, shut_out]))
    finally:
        server.stop()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """One that signs itself, for a server and for a client, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    (folder / "both.pem").write_text(certificate.read_text() + key.read_text())
    return certificate, key


async def test_tls_with_certificates_on_both_sides(folder: Path) -> None:
    certificate, key = make_certificate(folder)
    server = NatsServer(
        folder,
        *("--tlsverify", "--tlscert", str(certificate), "--tlskey", str(key)),
        *("--tlscacert", str(certificate)),
    )
    await server.start()

    def with_files(host: str, ca_file: Path | str, own: str) -> SignalsSettings:
        return msgspec.structs.replace(
            settings(folder, server, host), nats_ca_file=str(ca_file), nats_certificate_file=own
        )

    own = str(folder / "both.pem")
    try:
        async with (
            Worker(with_files("a", certificate, own)).running() as one,
            Worker(with_files("b", certificate, own)).running() as two,
            Worker(with_files("c", "", own)).running() as distrusting,
            Worker(with_files("d", certificate, "")).running() as nameless,
        ):
            await eventually(lambda: all_hear_all([one, two]))
            for shut_out in (distrusting, nameless):
                assert shut_out.listener.state is PeerState.SILENT
                assert shut_out.listener.heard == {}
                assert shut_out.exchange.counts.failures == 0
    finally:
        server.stop()


async def test_a_line_ends_at_whatever_moment_it_is_told_to(folder: Path) -> None:
    """The client swallows a cancellation here and there, with TLS in one of thirty cases."""
    certificate, key = make_certificate(folder)
    server = NatsServer(folder, "--tls", "--tlscert", str(certificate), "--tlskey", str(key))
    await server.start()
    own = msgspec.structs.replace(
        settings(folder, server, "a"), nats_ca_file=str(certificate), nats_connect_seconds=0.5
    )
    moments = random.Random(4)
    try:
        async with asyncio.timeout(40):
            for _ in range(60):
                line = NatsLine(own, CELL.mark, SignalCounts())
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(line.run(lambda data: None))
                    await asyncio.sleep(moments.random() * 0.03)
                    line.send(b"something")
                    await asyncio.sleep(moments.random() * 0.01)
                    task.cancel()
                assert task.cancelled()
                assert not line.is_up
    finally:
        server.stop()


async def test_one_try_tells_whether_nats_can_be_reached(folder: Path, server: NatsServer) -> None:
    assert await find_problem(settings(folder, server, "a")) == ""
    server.stop()
    assert "ConnectionRefusedError" in await find_problem(settings(folder, server, "a"))
