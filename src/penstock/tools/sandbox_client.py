"""Asks one sandbox host: starts and ends containers, runs code in them, moves files in and out.

A failure is one of a few errors: `SandboxUnavailable`, nothing was done; `SandboxLost`, the host
went away in the middle; `ContainerExpired`, the container is not there; `ContainerBusy`.
"""

import contextlib
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote

import msgspec

from penstock.errors import (
    BodyTooLarge,
    Conflict,
    ContainerBusy,
    ContainerExpired,
    SandboxLost,
    SandboxUnavailable,
)
from penstock.outbound.target import read_target
from penstock.tools.container_ids import ContainerId
from penstock.tools.host_exchange import (
    FAILURES,
    HostAnswer,
    HostRequest,
    NoConnection,
    exchange,
)
from penstock.tools.settings import ToolsSettings
from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    CodeCall,
    ContainerLost,
    NewContainer,
    SandboxRefusal,
    SandboxStatus,
    StartedContainer,
)

_STATUS_SECONDS: Final = 2.0
_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 5.0
_FILE_SECONDS: Final = 60.0
# What a host may take beyond the code's own time: it interrupts, and kills two seconds later.
_CALL_GRACE_SECONDS: Final = 15.0
_ANSWER_BYTES_MAX: Final = 2**20
# A picture of 4 MiB as base64, with some room; and all that a call may write and draw, as JSON.
_LINE_BYTES_MAX: Final = 8 * 2**20
_LINES_BYTES_MAX: Final = 96 * 2**20

T = TypeVar("T")
_line_decoder: Final = msgspec.json.Decoder(CallLine)
logger = logging.getLogger(__name__)


class SandboxHost:
    """One sandbox host, by its address in `tools.sandbox_hosts`."""

    def __init__(self, url: str, settings: ToolsSettings) -> None:
        self.url = url
        self._target = read_target(url)
        self._token_file = settings.sandbox_token_file
        self._ca_file = settings.sandbox_ca_file
        self._tls: ssl.SSLContext | None = None

    async def status(self) -> SandboxStatus:
        """Return what the host offers now."""
        request = HostRequest(method="GET", path="/status", seconds=_STATUS_SECONDS)
        return await self._decoded(request, SandboxStatus)

    async def start(self, id: ContainerId, new: NewContainer) -> StartedContainer:
        """Start a container."""
        request = HostRequest(
            method="POST",
            path=_path(id, ""),
            body=msgspec.json.encode(new),
            seconds=_START_SECONDS,
        )
        return await self._decoded(request, StartedContainer)

    async def end(self, id: ContainerId) -> None:
        """End a container; nothing happens if there is none."""
        request = HostRequest(method="DELETE", path=_path(id, ""), seconds=_END_SECONDS)
        with contextlib.suppress(ContainerExpired):
            async with self._asked(request) as answer:
                await answer.whole(_ANSWER_BYTES_MAX)

    async def interrupt(self, id: ContainerId) -> None:
        """Stop the code that runs in a container."""
        path = _path(id, "/interrupt")
        async with self._asked(HostRequest(method="POST", path=path, seconds=_END_SECONDS)):
            pass

    async def put_file(self, id: ContainerId, path: str, content: bytes) -> None:
        """Write a file below the container's data folder."""
        request = HostRequest(
            method="PUT", path=_file_path(id, path), body=content, seconds=_FILE_SECONDS
        )
        async with self._asked(request):
            pass

    async def get_file(self, id: ContainerId, path: str, bytes_max: int) -> bytes | None:
        """Return a file; None if there is none now that can be read within `bytes_max`."""
        request = HostRequest(method="GET", path=_file_path(id, path), seconds=_FILE_SECONDS)
        try:
            async with self._asked(request) as answer:
                return await answer.whole(bytes_max)
        except (ContainerExpired, BodyTooLarge, Conflict):
            return None

    async def run(
        self, id: ContainerId, call: CodeCall, seconds: float
    ) -> AsyncGenerator[CallLine]:
        """Yield what a call of code gives, up to its last line, as it comes."""
        request = HostRequest(
            method="POST",
            path=_path(id, "/exec"),
            body=msgspec.json.encode(call),
            seconds=seconds + _CALL_GRACE_SECONDS,
        )
        async with self._asked(request) as answer:
            last: CallLine | None = None
            async for text in answer.lines(_LINE_BYTES_MAX, _LINES_BYTES_MAX):
                line = _line_decoder.decode(text)
                if last is not None:
                    raise ValueError("the host sent more than a call's last line")
                if isinstance(line, CallEnded | ContainerLost):
                    # Held until the answer ends: only then is the container free for more.
                    last = line
                else:
                    yield line
            if last is None:
                raise EOFError("the host ended a call without its last line")
            yield last

    async def _decoded(self, request: HostRequest, kind: type[T]) -> T:
        async with self._asked(request) as answer:
            return msgspec.json.decode(await answer.whole(_ANSWER_BYTES_MAX), type=kind)

    @contextlib.asynccontextmanager
    async def _asked(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        try:
            token = self._token()
            async with exchange(self._target, token, self._context(), request) as answer:
                if answer.status >= 300:
                    await self._refuse(answer)
                yield answer
        except FAILURES as failure:
            reason = str(failure) or type(failure).__name__
            logger.warning(
                "sandbox host failed",
                extra={"action": "sandbox_failed", "host": self.url, "reason": reason[:200]},
            )
            if isinstance(failure, NoConnection):
                raise SandboxUnavailable from None
            raise SandboxLost from None

    async def _refuse(self, answer: HostAnswer) -> NoReturn:
        refusal = msgspec.json.decode(await answer.whole(_ANSWER_BYTES_MAX), type=SandboxRefusal)
        if refusal.code in ("not_found", "lost"):
            raise ContainerExpired
        if refusal.code == "busy":
            raise ContainerBusy
        if refusal.code == "too_large":
            raise BodyTooLarge("The file is larger than a container may hold.", param="file")
        if refusal.code == "refused":
            # Its text may be a container's, so it is not passed on.
            raise Conflict("The container does not do that: its disk or memory may be full.")
        if refusal.code != "full":
            # A wrong token, or a request that only a bug of ours can make.
            logger.error(
                "sandbox host refuses",
                extra={"action": "sandbox_refuses", "host": self.url, "code": refusal.code},
            )
        raise SandboxUnavailable

    def _token(self) -> str:
        # Read for each request: a token may be replaced, and requests are few.
        return Path(self._token_file).read_text("ascii").strip() if self._token_file else ""

    def _context(self) -> ssl.SSLContext | None:
        if self._target.is_tls and self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file or None)
        return self._tls


def _path(id: ContainerId, what: str) -> str:
    return f"/containers/{id.replace('-', '')}{what}"


def _file_path(id: ContainerId, path: str) -> str:
    return _path(id, f"/files/{quote(path)}")
