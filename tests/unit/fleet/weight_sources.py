"""Sources of weights for tests of fetches, and a watch that stops one."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.fleet.weights.copied_source import CopiedSource
from penstock.fleet.weights.fetch import FetchLimits, fetch
from penstock.fleet.weights.folder_files import FolderFiles
from penstock.records.model import Weights
from penstock.records.source_file import SourceFile

MEGABYTE = 2**20
LIMITS = FetchLimits(files_max=10, spare_bytes=0)


class Watch:
    """Notes what it hears; stops the fetch when so many bytes are done."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.heard: list[tuple[int, int]] = []
        self.has_waited = threading.Event()
        self._stop_at = stop_at

    def on_bytes(self, done: int, total: int) -> None:
        self.heard.append((done, total))

    def on_wait(self) -> None:
        self.has_waited.set()

    def is_stopped(self) -> bool:
        return self._stop_at is not None and self.heard[-1][0] >= self._stop_at


class Counting:
    """The files of a folder; counts the bytes that are read."""

    def __init__(self, folder: Path) -> None:
        self._files = FolderFiles(folder)
        self.bytes_read = 0

    def list(self, files_max: int) -> Sequence[SourceFile]:
        return self._files.list(files_max)

    def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]:
        for chunk in self._files.read(file, start, end):
            self.bytes_read += len(chunk)
            yield chunk


class Fixed:
    """A source that says what it is told to, and whose files hold zeros."""

    def __init__(self, *files: SourceFile, before: Callable[[], None] = lambda: None) -> None:
        self._listed = files
        self._before = before

    def list(self, files_max: int) -> Sequence[SourceFile]:
        return self._listed[: files_max + 1]

    def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]:
        self._before()
        yield bytes(end - start)


def bring(
    files: CopiedSource,
    target: Path,
    watch: Watch | None = None,
    free: Callable[[Path], int] = lambda _: 10**15,
) -> None:
    fetch(Weights("/origin", 0.001), target, files, LIMITS, watch or Watch(), free)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
