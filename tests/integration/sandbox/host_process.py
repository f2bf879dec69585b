"""A `penstock sandbox` process, set up as an operator would, and a client with its token."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT, eventually, free_port

from penstock.clock import new_id
from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    Failed,
    Output,
    SandboxStatus,
    ShownValue,
)

TOKEN = "a token of tests".replace(" ", "-")
_lines = msgspec.json.Decoder(CallLine)


class SandboxHost:
    """Made by `sandbox_host`."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.port = port
        self.process = process
        self._log = log
        self.token_file = log.with_name("token")
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {TOKEN}"},
            trust_env=False,
            timeout=30,
        )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def status(self) -> SandboxStatus:
        answer = self.client.get("/status")
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=SandboxStatus)

    def open(self, memory_mb: int = 128, **times: float) -> str:
        """Start a container and return its id."""
        id = new_id().replace("-", "")
        answer = self.client.post(f"/containers/{id}", json=wanted(memory_mb, **times))
        assert answer.status_code == 200, answer.text
        return id

    def run(self, id: str, code: str, **more: Any) -> list[CallLine]:
        """Run code to its end and return all lines."""
        answer = self.client.post(f"/containers/{id}/exec", json=call(code, **more))
        assert answer.status_code == 200, answer.text
        return lines_of(answer.content)


def wanted(memory_mb: int = 128, **times: float) -> dict[str, float]:
    return {"memory_mb": memory_mb, "idle_seconds": 600, "life_seconds": 600, **times}


def call(code: str, **more: Any) -> dict[str, Any]:
    return {"call_id": new_id(), "code": code, **more}


def lines_of(content: bytes) -> list[CallLine]:
    return [_lines.decode(line) for line in content.splitlines()]


def text_in(lines: list[CallLine]) -> str:
    """What a call printed and showed; its last line must be its end."""
    assert isinstance(lines[-1], CallEnded), lines[-1]
    return "".join(line.text for line in lines if isinstance(line, Output | ShownValue | Failed))


@contextmanager
def sandbox_host(folder: Path, *options: str, **settings: object) -> Iterator[SandboxHost]:
    """Run it until the block ends; `settings` are those of the room."""
    port = int(str(settings.pop("port", 0))) or free_port()
    token = folder / "token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    values = {"port": port, "token_file": token, "memory_tiers_mb": [128, 256], "cpus": 1.0}
    values |= {"data_bytes": 16 * 2**20, **settings}
    variables = {f"PENSTOCK_SANDBOX_{name.upper()}": str(value) for name, value in values.items()}
    log = folder / f"sandbox-{port}.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "penstock",
                "sandbox",
                *options,
                "--parent-pid",
                str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # A sandbox host must not care for a wrong address of Postgres: it reads none.
            env={**CHILD_ENVIRONMENT, **variables, "PENSTOCK_STORE_POOL_SIZE_MAX": "wrong"},
            cwd=folder,
        )
    host = SandboxHost(port, process, log)
    try:
        eventually(lambda: _answers(host), seconds=30)
        yield host
    finally:
        host.client.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, host.log[-3000:]


def _answers(host: SandboxHost) -> bool:
    assert host.process.poll() is None, host.log[-3000:]
    try:
        return host.client.get("/status").status_code == 200
    except httpx.TransportError:
        return False
