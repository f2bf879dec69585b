"""Asking engines over real sockets: keys, https, and servers that misbehave."""

import asyncio
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.fleet.engine_replicas import replica_at

from penstock.errors import ReplicaUnreachable
from penstock.fleet.health import EngineProbe
from penstock.fleet.settings import FleetSettings
from penstock.testing import ScriptedEngine

_MODELS = b'HTTP/1.1 200 OK\r\n\r\n{"data":[{"id":"kimi"},{"id":"lora"}]}'


@asynccontextmanager
async def _server(
    answer: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """One canned answer for every request; what was asked is kept."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def test_a_probe_sends_the_key_of_its_url_and_no_other() -> None:
    async with _server(_MODELS) as (port, asked):
        url = f"http://127.0.0.1:{port}/engine"
        keyed = EngineProbe(FleetSettings(), api_keys={url: "sk-one", "*": "sk-rest"})
        assert await keyed.served_names(replica_at(url)) == ("kimi", "lora")
        assert asked[-1].startswith(b"GET /engine/v1/models HTTP/1.1\r\n")
        assert b"\r\nauthorization: Bearer sk-one\r\n" in asked[-1]
        assert await EngineProbe(FleetSettings()).is_healthy(replica_at(url))
        assert b"authorization" not in asked[-1]


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 401 No\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]"],
)
async def test_a_server_that_names_no_models_is_unreachable(answer: bytes) -> None:
    async with _server(answer) as (port, _):
        with pytest.raises(ReplicaUnreachable):
            await EngineProbe(FleetSettings()).served_names(replica_at(f"http://127.0.0.1:{port}"))


async def test_a_probe_gives_up_on_a_server_that_hangs() -> None:
    with ScriptedEngine(model="m") as engine:
        engine.control(health_delay=30)
        probe = EngineProbe(FleetSettings(health_timeout_seconds=0.2))
        began = time.monotonic()
        assert not await probe.is_healthy(replica_at(engine.url))
        assert time.monotonic() - began < 2
        assert not await probe.is_healthy(replica_at("http://127.0.0.1:1"))
        assert await probe.running(replica_at("http://127.0.0.1:1")) is None


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, and its key, in one file."""
    path = tmp_path / "engine.pem"
    other = tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
        f" -subj /CN=engine -addext subjectAltName=IP:127.0.0.1 -keyout {path} -out {other}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + other.read_bytes())
    return path


async def test_https_is_spoken_to_servers_whose_authority_is_known(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with _server(_MODELS, tls) as (port, _):
        url = f"https://127.0.0.1:{port}"
        trusting = EngineProbe(FleetSettings(), ca_file=str(certificate))
        assert await trusting.served_names(replica_at(url)) == ("kimi", "lora")
        assert not await EngineProbe(FleetSettings()).is_healthy(replica_at(url))
