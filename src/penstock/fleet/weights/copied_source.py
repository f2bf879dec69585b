"""Copies files whose parts can be read, and goes on where an earlier copy was cut."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import Conflict
from penstock.fleet.weights.weight_files import (
    PART,
    FetchFailed,
    FetchStopped,
    FetchWatch,
    ReadableFiles,
)
from penstock.records.source_file import SourceFile


class CopiedSource:
    """A folder or a bucket. Each file has a temporary name beside its own until it is whole."""

    def __init__(self, files: ReadableFiles) -> None:
        self._files = files

    def list(self, files_max: int) -> Sequence[SourceFile]:
        return self._files.list(files_max)

    def bring(self, files: Sequence[SourceFile], folder: Path, watch: FetchWatch) -> None:
        """Copy what is missing or has another size."""
        total = sum(each.size for each in files)
        missing = [each for each in files if not _is_there(folder / each.name, each.size)]
        done = total - sum(each.size for each in missing)
        watch.on_bytes(done, total)
        for file in missing:
            try:
                self._copy(file, folder / file.name, watch, done, total)
            except Conflict:
                # The part may hold bytes of both versions.
                part_of(folder / file.name, file).unlink(missing_ok=True)
                raise FetchFailed(f"{file.name} has changed since the source was listed") from None
            done += file.size

    def _copy(
        self, file: SourceFile, path: Path, watch: FetchWatch, before: int, total: int
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(path, file)
        with part.open("ab") as copy:
            if copy.tell() > file.size:
                copy.truncate(0)
            done = copy.tell()
            for chunk in self._files.read(file, done, file.size):
                copy.write(chunk)
                done += len(chunk)
                watch.on_bytes(before + done, total)
                if watch.is_stopped():
                    raise FetchStopped
            copy.flush()
            os.fsync(copy.fileno())
        if done != file.size:
            raise FetchFailed(f"{file.name} has {done} bytes instead of {file.size}")
        part.replace(path)


def part_of(path: Path, file: SourceFile) -> Path:
    """Return the temporary name of a file; a part of another version has another name."""
    version = hashlib.sha256(f"{file.size} {file.version}".encode()).hexdigest()[:8]
    return path.with_name(f".{path.name}.{version}{PART}")


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
