"""The files of a source of weights, and the checks of what a source says of them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from penstock.records.source_file import SourceFile

# Kept in the folder of fetched weights beside the files of the source.
MARKER: Final = ".penstock-weights.json"
PART: Final = ".penstock-part"
_NAME_CHARACTERS_MAX: Final = 1000
# File systems take 255 bytes; the name of a part of a file is longer than the file's own.
_PART_BYTES_MAX: Final = 200


class FetchFailed(Exception):
    """Weights cannot be fetched; the text says why, and may help to mend it."""


class FetchStopped(Exception):
    """The fetch was asked to stop; the next one goes on from there."""


class FetchWatch(Protocol):
    """Hears how a fetch goes on, in the thread that fetches, and may stop it."""

    def on_bytes(self, done: int, total: int) -> None: ...

    def on_wait(self) -> None: ...

    def is_stopped(self) -> bool: ...


class WeightSource(Protocol):
    """Where weights come from. Its methods block."""

    def list(self, files_max: int) -> Sequence[SourceFile]: ...

    def bring(self, files: Sequence[SourceFile], folder: Path, watch: FetchWatch) -> None: ...


class ReadableFiles(Protocol):
    """Files of which any part can be read."""

    def list(self, files_max: int) -> Sequence[SourceFile]: ...

    def read(self, name: str, start: int, end: int) -> Iterator[bytes]: ...


def checked_files(files: Iterable[SourceFile], files_max: int) -> list[SourceFile]:
    """Return the files to fetch, by name; raise FetchFailed for what no source should hold."""
    kept = sorted((each for each in files if not _is_own(each.name)), key=lambda each: each.name)
    if not kept:
        raise FetchFailed("the source has no files")
    if len(kept) > files_max:
        raise FetchFailed(
            f"the source has more than {files_max} files; fleet.weights_files_max allows no more"
        )
    names = {each.name for each in kept}
    if len(names) < len(kept):
        raise FetchFailed("the source has two files of one name")
    for each in kept:
        fault = _fault_in(each)
        if fault:
            raise FetchFailed(f"the source's file {each.name[:200]!r} {fault}")
        if not names.isdisjoint(str(above) for above in PurePosixPath(each.name).parents):
            raise FetchFailed(f"the source's file {each.name[:200]!r} is below another file")
    return kept


def _is_own(name: str) -> bool:
    """Return whether a fetch left this file: a source may be what another host has fetched."""
    return name == MARKER or name.endswith(PART)


def _fault_in(file: SourceFile) -> str:
    name = file.name
    parts = name.split("/")
    if len(name) > _NAME_CHARACTERS_MAX or any(
        len(part.encode(errors="replace")) > _PART_BYTES_MAX for part in parts
    ):
        return "has a name that is too long"
    if not name.isprintable() or "\\" in name:
        return "has a name that is not plain text"
    if any(part in {"", ".", ".."} for part in parts):
        return "is not below the source"
    return "has no size" if file.size < 0 else ""
