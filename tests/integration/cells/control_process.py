"""A `penstock control` process that serves operators, and keys for it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.gateway_process import Settings, eventually, free_port

from penstock.config import environment_for
from penstock.policy import KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings


class OperatorKeys(msgspec.Struct, frozen=True):
    """Secrets of a key of each kind that has no account."""

    operator: str
    auditor: str


class ControlProcess(msgspec.Struct, frozen=True):
    """A running control process."""

    url: str
    port: int
    keys: OperatorKeys
    pid: int

    def client(self, secret: str | None = None) -> httpx.Client:
        """A client with this key; the operator's if none is given, none if it is empty."""
        key = self.keys.operator if secret is None else secret
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=f"{self.url}/operator/v1", headers=headers, trust_env=False)


@contextmanager
def control_process(
    dsn: str,
    folder: Path,
    settings: Settings | None = None,
    keys: OperatorKeys | None = None,
) -> Iterator[ControlProcess]:
    """Run control on a database until the block ends; with keys that are there, or new ones."""
    port = free_port()
    values = {
        "store.dsn": dsn,
        "store.objects_url": f"file:{folder / 'objects'}",
        "store.cell_key_file": str(key_file(folder)),
        "control.port": port,
        **(settings or {}),
    }
    keys = keys or asyncio.run(_make_keys(dsn))
    with (folder / "control.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "control", "--parent-pid", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment_for(values),
            cwd=folder,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(url), seconds=30)
        yield ControlProcess(url, port, keys, process.pid)
        assert process.poll() is None, "control ended by itself"
    finally:
        process.terminate()
        assert process.wait(20) == 0, (folder / "control.log").read_text()[-3000:]


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


async def _make_keys(dsn: str) -> OperatorKeys:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        book = KeyBook(store)
        _, operator = await book.create(Role.OPERATOR, None, "operator")
        _, auditor = await book.create(Role.AUDITOR, None, "auditor")
    finally:
        await store.close()
    return OperatorKeys(operator, auditor)
