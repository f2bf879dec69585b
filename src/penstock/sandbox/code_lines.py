"""Runs code in a container and yields the lines of a gateway's answer."""

from collections.abc import AsyncGenerator

from penstock.clock import Clock
from penstock.sandbox.box import Box
from penstock.sandbox.kernel_events import Picture
from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    ChangedFiles,
    FileEntry,
    WholePicture,
)


async def code_lines(box: Box, code: str, seconds: float, clock: Clock) -> AsyncGenerator[CallLine]:
    """Run code; a container that is lost raises BoxLost."""
    before = await _files(box)
    began = clock.monotonic()
    parts: list[bytes] = []
    async for event in box.execute(code, seconds):
        if not isinstance(event, Picture):
            yield event
            continue
        parts.append(event.data)
        if not event.more:
            yield WholePicture(b"".join(parts))
            parts = []
    took = clock.monotonic() - began
    yield ChangedFiles(changed_files(before, await _files(box)))
    yield CallEnded(round(took, 4))


def changed_files(before: list[FileEntry], after: list[FileEntry]) -> list[FileEntry]:
    """Return the files that are new, or of another size or time."""
    known = set(before)
    return [entry for entry in after if entry not in known]


async def _files(box: Box) -> list[FileEntry]:
    try:
        return await box.files()
    except OSError:
        # The kernel could not list them: for want of memory, say.
        return []
