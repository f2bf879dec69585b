"""Runs code in a container, and keeps copies of the files that it made."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import (
    BodyTooLarge,
    ContainerBusy,
    ContainerExpired,
    Error,
    NotFound,
    QuotaSpent,
    StoreUnavailable,
)
from penstock.tools.container_book import ContainerBook
from penstock.tools.container_ids import is_path
from penstock.tools.container_queries import AccountContainer, ContainerFile
from penstock.tools.sandbox_hosts import HOST_FAILURES
from penstock.tools.settings import ToolsSettings
from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    ChangedFiles,
    CodeCall,
    ContainerLost,
    FileEntry,
)

# A host interrupts code when its time is over, and kills it a little later.
_ENDING_SECONDS: Final = 5.0
_NOT_KEPT: Final = (BodyTooLarge, QuotaSpent, NotFound, StoreUnavailable, *HOST_FAILURES)

logger = logging.getLogger(__name__)


class CopiedFiles(msgspec.Struct, frozen=True):
    """The files that a call made or changed: copies that are kept, and paths without one."""

    files: list[ContainerFile]
    left_out: list[str]


class CodeCalls:
    """Runs code, one call at a time in a container."""

    def __init__(self, book: ContainerBook, settings: ToolsSettings, clock: Clock) -> None:
        self._book = book
        self._settings = settings
        self._monotonic = clock.monotonic

    async def run_code(
        self, container: AccountContainer, call_id: str, code: str, seconds: float | None = None
    ) -> AsyncGenerator[CallLine | CopiedFiles]:
        """Yield what the code gives as it comes; the last line is CallEnded or ContainerLost.

        `CopiedFiles` comes before the last line, if files were changed. The same `call_id` again
        gives the same lines again, and runs nothing. Whoever stops reading before the end must
        close the iterator (`contextlib.aclosing`): that interrupts the code.
        """
        most = min(seconds or self._settings.exec_seconds, self._settings.exec_seconds_max)
        await self._book.check_money(container.account)
        await self._book.begin_call(container, most + _ENDING_SECONDS)
        began_at = self._monotonic()
        call = CodeCall(call_id=call_id, code=code, seconds=most)
        host = self._book.hosts.host(container.host)
        ending = _Ending()
        try:
            changed: Sequence[FileEntry] = ()
            async with contextlib.aclosing(host.run(container.id, call, most)) as lines:
                async for line in lines:
                    if isinstance(line, ChangedFiles):
                        changed = line.files
                    elif isinstance(line, ContainerLost):
                        ending.is_over = ending.is_lost = True
                    elif isinstance(line, CallEnded):
                        ending.is_over, ending.seconds = True, line.seconds
                        if changed:
                            yield await self._copy(container, changed)
                    yield line
        except Error as failure:
            ending.is_over = True
            ending.is_lost = isinstance(failure, ContainerExpired)
            ending.is_refused = isinstance(failure, ContainerBusy)
            raise
        finally:
            if ending.seconds is None:
                ending.seconds = self._monotonic() - began_at
            await self._after(container, ending)

    async def _copy(self, container: AccountContainer, changed: Sequence[FileEntry]) -> CopiedFiles:
        """Copy files out of a container, as long as they fit."""
        files: list[ContainerFile] = []
        left_out: list[str] = []
        host = self._book.hosts.host(container.host)
        for entry in changed:
            if not is_path(entry.path):
                continue
            try:
                await self._book.files.check_room(container, entry.path, entry.bytes)
                content = await host.get_file(container.id, entry.path, entry.bytes)
                if content is None:
                    left_out.append(entry.path)
                    continue
                files.append(
                    await self._book.files.keep(container, entry.path, content, "assistant")
                )
            except _NOT_KEPT as reason:
                logger.info(
                    "file of a container not kept",
                    extra={"action": "container_file_left_out", "reason": type(reason).__name__},
                )
                left_out.append(entry.path)
        return CopiedFiles(files, left_out)

    async def _after(self, container: AccountContainer, ending: "_Ending") -> None:
        """Note how long the code ran; stop it if nobody waits for its end."""
        if ending.is_refused:
            # Other code runs there, and its own call notes its end.
            return
        if not ending.is_over:
            with contextlib.suppress(NotFound, *HOST_FAILURES):
                await self._book.hosts.host(container.host).interrupt(container.id)
        with contextlib.suppress(StoreUnavailable):
            await self._book.end_call(container, ending.seconds or 0.0)
            if ending.is_lost:
                await self._book.expire([container.id])


class _Ending:
    """How a call has ended, as far as is known."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_lost = False
        self.is_refused = False
        self.seconds: float | None = None
