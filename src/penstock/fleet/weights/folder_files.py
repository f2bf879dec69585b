"""Reads weights out of a folder, such as a network mount."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import Conflict
from penstock.fleet.weights.weight_files import FetchFailed
from penstock.records.source_file import SourceFile

_CHUNK_BYTES: Final = 4 * 2**20


class FolderFiles:
    """The files of one folder. Links that lead out of it are refused, so that a source cannot make
    a host copy its own secrets to where engines read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self, files_max: int) -> list[SourceFile]:
        """Return the files; one more than `files_max` at most."""
        if not self._folder.is_dir():
            raise FetchFailed(f"{self._folder} is not a folder of this host")
        found: list[SourceFile] = []
        for root, folders, names in os.walk(self._folder, onerror=_give_up):
            for name in folders:
                if (Path(root) / name).is_symlink():
                    raise FetchFailed(f"{Path(root) / name} is a link to a folder")
            for name in names:
                found.append(self._file(Path(root) / name))
                if len(found) > files_max:
                    return found
        return found

    def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` up to `end`; raise Conflict if it has changed."""
        path = self._folder / file.name
        try:
            with self._inside(path).open("rb", buffering=0) as opened:
                opened.seek(start)
                while start < end:
                    chunk = opened.read(min(_CHUNK_BYTES, end - start))
                    if not chunk:
                        break
                    start += len(chunk)
                    yield chunk
        except OSError as failure:
            raise FetchFailed(f"{path} cannot be read: {_why(failure)}") from None
        # Looked at last, because the file may be written while it is read.
        if self._file(path) != file:
            raise Conflict

    def _file(self, path: Path) -> SourceFile:
        try:
            facts = self._inside(path).stat()
        except OSError as failure:
            raise FetchFailed(f"{path} cannot be read: {_why(failure)}") from None
        if not stat.S_ISREG(facts.st_mode):
            raise FetchFailed(f"{path} is not a plain file")
        name = path.relative_to(self._folder).as_posix()
        return SourceFile(name, facts.st_size, str(facts.st_mtime_ns))

    def _inside(self, path: Path) -> Path:
        """Return where a path leads, if that is inside of the folder."""
        real = path.resolve()
        if not real.is_relative_to(self._folder.resolve()):
            raise FetchFailed(f"{path} is a link out of the folder")
        return real


def _give_up(failure: OSError) -> None:
    raise FetchFailed(f"{failure.filename} cannot be read: {_why(failure)}")


def _why(failure: OSError) -> str:
    return failure.strerror or type(failure).__name__
