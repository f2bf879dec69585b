"""The files of a source of weights, and the checks of what a source says of them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from penstock.records.source_file import SourceFile

# Kept in the folder of fetched weights beside the files of the source.
MARKER: Final = ".penstock-weights.json"
VERSIONS: Final = ".penstock-versions.json"
OWN_FILES: Final = frozenset({MARKER, VERSIONS})
PART: Final = ".penstock-part"
_NAME_CHARACTERS_MAX: Final = 1000
# File systems take 255 bytes; the name of a part of a file is longer than the file's own.
_PART_BYTES_MAX: Final = 200


class FetchFailed(Exception):
    """Weights cannot be fetched; the text says why, and may help to mend it."""


class FetchStopped(Exception):
    """The fetch was asked to stop; the next one goes on from there."""


class FetchLockedOut(Exception):
    """Another process has held the lock of the source for as long as this fetch may wait."""


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
    """Files of which any part can be read. `read` raises Conflict if it finds another version."""

    def list(self, files_max: int) -> Sequence[SourceFile]: ...

    def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]: ...


def checked_files(files: Iterable[SourceFile], files_max: int) -> list[SourceFile]:
    """Return the files to fetch, by name; raise FetchFailed for what no source should hold."""
    listed = sorted(files, key=lambda each: each.name)
    if _is_being_fetched({each.name for each in listed}):
        raise FetchFailed("the source is itself being fetched")
    kept = [each for each in listed if each.name not in OWN_FILES]
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


def _is_being_fetched(names: Collection[str]) -> bool:
    """Return whether a fetch has not completed this folder: a source may be a fetched folder."""
    # Between two files there is no temporary name, but the versions are noted before the first.
    has_begun = VERSIONS in names and MARKER not in names
    return has_begun or any(name.endswith(PART) for name in names)


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
