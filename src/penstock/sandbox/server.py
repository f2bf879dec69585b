"""What gateways can ask of a sandbox host: an ASGI application on the pool of its containers.

Without the token nothing is told and nothing is done. Names and texts of containers are passed on,
never used.
"""

import asyncio
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from penstock.sandbox.box import path_inside
from penstock.sandbox.code_runner import CodeRunner
from penstock.sandbox.exchange import (
    BYTES,
    ClientLeft,
    Header,
    Receive,
    SandboxExchange,
    Scope,
    Send,
)
from penstock.sandbox.pool import BoxPool
from penstock.sandbox.refusals import SandboxRefused
from penstock.sandbox.settings import SandboxSettings
from penstock.wire.resources.sandbox import CodeCall, FileNames, NewContainer

_ID: Final = re.compile(r"[0-9a-f]{32}")
_DEV: Final[list[Header]] = [(b"x-penstock-sandbox", b"dev: nothing is isolated")]

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")
_Step = Callable[[SandboxExchange, str, str], Awaitable[None]]


class SandboxServer:
    """One for each process."""

    def __init__(
        self, pool: BoxPool, runner: CodeRunner, settings: SandboxSettings, token: bytes
    ) -> None:
        self._pool = pool
        self._runner = runner
        self._settings = settings
        self._token = hashlib.sha256(b"Bearer " + token).digest()
        self._extra = _DEV if pool.status().is_dev else []
        self._files = asyncio.Semaphore(settings.files_at_once_max)
        # By method, and by what follows a container's id.
        self._steps: dict[tuple[str, str], _Step] = {
            ("POST", ""): self._open,
            ("DELETE", ""): self._end,
            ("POST", "exec"): self._exec,
            ("POST", "interrupt"): self._interrupt,
            ("GET", "files"): self._list,
            ("PUT", "files/"): self._put,
            ("GET", "files/"): self._get,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._live(scope, receive, send)
            return
        exchange = SandboxExchange(scope, receive, send, self._extra)
        try:
            try:
                await self._serve(exchange)
            except SandboxRefused as refused:
                await exchange.refuse(refused)
        except ClientLeft:
            return

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the settings to the connections, by uvicorn's state of the application."""
        await receive()
        scope["state"]["settings"] = self._settings
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, exchange: SandboxExchange) -> None:
        given = hashlib.sha256(exchange.header(b"authorization")).digest()
        if not hmac.compare_digest(given, self._token):
            raise SandboxRefused("unauthorized", "The token is missing or wrong.")
        parts = exchange.parts()
        if parts == ["status"] and exchange.method == "GET":
            await exchange.answer(msgspec.json.encode(self._pool.status()))
            return
        if len(parts) < 2 or parts[0] != "containers" or not _ID.fullmatch(parts[1]):
            raise SandboxRefused("not_found", "There is no such path.")
        what = "/".join(parts[2:3]) + ("/" if len(parts) > 3 else "")
        step = self._steps.get((exchange.method, what))
        if step is None:
            raise SandboxRefused("not_found", "There is no such path.")
        await step(exchange, parts[1], "/".join(parts[3:]))

    async def _open(self, exchange: SandboxExchange, id: str, _: str) -> None:
        wanted = await self._read(exchange, NewContainer)
        await exchange.answer(msgspec.json.encode(await self._pool.open(id, wanted)))

    async def _end(self, exchange: SandboxExchange, id: str, _: str) -> None:
        await self._pool.end(id)
        await exchange.answer(b"{}")

    async def _exec(self, exchange: SandboxExchange, id: str, _: str) -> None:
        wanted = await self._read(exchange, CodeCall)
        call = self._runner.run(self._pool.find(id), wanted)
        await exchange.stream(call.read())

    async def _interrupt(self, exchange: SandboxExchange, id: str, _: str) -> None:
        container = self._pool.find(id)
        if container.running is not None:
            container.box.interrupt()
        await exchange.answer(b"{}")

    async def _list(self, exchange: SandboxExchange, id: str, _: str) -> None:
        async with self._runner.use(self._pool.find(id)) as box:
            names = await _or_refusal(box.files())
        await exchange.answer(msgspec.json.encode(FileNames(names)))

    async def _put(self, exchange: SandboxExchange, id: str, name: str) -> None:
        path = _checked(name)
        self._pool.find(id)
        async with self._files:
            settings = self._settings
            data = await exchange.body(settings.file_bytes_max, settings.body_seconds)
            async with self._runner.use(self._pool.find(id)) as box:
                await _or_refusal(box.put(path, data))
        await exchange.answer(b"{}")

    async def _get(self, exchange: SandboxExchange, id: str, name: str) -> None:
        path, most = _checked(name), self._settings.file_bytes_max
        async with self._files:
            async with self._runner.use(self._pool.find(id)) as box:
                data = await _or_refusal(box.get(path, most + 1))
            if len(data) > most:
                raise SandboxRefused("too_large", f"The file is over {most} bytes.")
            await exchange.answer(data, media=BYTES)

    async def _read(self, exchange: SandboxExchange, kind: type[Wanted]) -> Wanted:
        settings = self._settings
        return await exchange.read(kind, settings.body_bytes_max, settings.body_seconds)


def _checked(name: str) -> str:
    try:
        return path_inside(name)
    except ValueError as wrong:
        raise SandboxRefused("malformed", str(wrong)) from None


async def _or_refusal(asked: Awaitable[Answer]) -> Answer:
    """Turn what a container refuses into a refusal."""
    try:
        return await asked
    except OSError as refusal:
        text = str(refusal)
        is_missing = text.startswith("FileNotFoundError")
        raise SandboxRefused(
            "not_found" if is_missing else "refused", f"The container says: {text}"
        ) from None
