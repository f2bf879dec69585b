"""The folder of one source's weights on this host: its name, and whether it is complete."""

import contextlib
import hashlib
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import msgspec

from penstock.fleet.settings import FleetSettings
from penstock.fleet.weights.weight_files import MARKER, PART, VERSIONS
from penstock.records.model import Recipe
from penstock.records.source_file import SourceFile

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS_MAX: Final = 60
_MARKER_BYTES_MAX: Final = 64 * 2**20
# The folder that Hugging Face's library keeps for itself.
HUB_FOLDER: Final = ".cache"


class CompleteMarker(msgspec.Struct, frozen=True):
    """What a complete folder holds, with the size of each file."""

    source: str
    files: dict[str, int]


def folder_of(weights_folder: str, source: str) -> Path:
    """Return where a source's files are, or will be. Different sources have different folders."""
    tail = _UNSAFE.sub("-", source.rstrip("/").rpartition("/")[2]).strip("-.") or "weights"
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    return Path(weights_folder).expanduser().absolute() / f"{tail[:_NAME_CHARACTERS_MAX]}-{digest}"


def weights_path(settings: FleetSettings, recipe: Recipe) -> str:
    """Return what `{weights}` stands for in a recipe on this host; "" if it names none."""
    return str(folder_of(settings.weights_folder, recipe.weights.source)) if recipe.weights else ""


def is_complete(folder: Path, source: str) -> bool:
    """Return whether every file that was listed is there in its size. Reads no contents."""
    try:
        with (folder / MARKER).open("rb") as file:
            marker = msgspec.json.decode(file.read(_MARKER_BYTES_MAX), type=CompleteMarker)
        return marker.source == source and all(
            (folder / name).stat().st_size == size for name, size in marker.files.items()
        )
    except (OSError, ValueError):
        return False


def mark_complete(folder: Path, source: str, files: Sequence[SourceFile]) -> None:
    """Write that the folder is complete, after its files have reached the disk."""
    marker = CompleteMarker(source, {each.name: each.size for each in files})
    for path in {folder / each.name for each in files}:
        _sync(path)
    for path in {(folder / each.name).parent for each in files}:
        _sync(path)
    _replace(folder / MARKER, msgspec.json.encode(marker))


def unmark(folder: Path) -> None:
    """Make the folder and say that it is not complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)


def remove_older(folder: Path, files: Sequence[SourceFile]) -> None:
    """Remove whole files of other versions than the listed ones, and note the listed versions.

    Files without a note, such as those that an operator has copied here, are kept.
    """
    noted = _noted_versions(folder)
    for each in files:
        if noted.get(each.name, each.version) != each.version:
            (folder / each.name).unlink(missing_ok=True)
    # A file that is not listed now may be listed again before it is removed from the folder.
    kept = {name: version for name, version in noted.items() if (folder / name).is_file()}
    versions = kept | {each.name: each.version for each in files}
    # Written after the removals: a crash between the two must not make an older file a listed one.
    _replace(folder / VERSIONS, msgspec.json.encode(versions))


def bytes_in(folder: Path) -> int:
    """Return how much the folder holds, parts of files included."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            # A file may be renamed by its fetcher between the two looks.
            with contextlib.suppress(OSError):
                total += os.lstat(Path(root) / name).st_size
    return total


def clear_others(folder: Path, files: Collection[SourceFile]) -> None:
    """Remove what the source does not have, such as files of an earlier list: engines load all."""
    names = {each.name for each in files} | {VERSIONS}
    for root, folders, found in os.walk(folder):
        if Path(root) == folder and HUB_FOLDER in folders:
            folders.remove(HUB_FOLDER)
        for name in found:
            path = Path(root) / name
            if path.relative_to(folder).as_posix() not in names:
                path.unlink()


def _noted_versions(folder: Path) -> dict[str, str]:
    try:
        with (folder / VERSIONS).open("rb") as file:
            return msgspec.json.decode(file.read(_MARKER_BYTES_MAX), type=dict[str, str])
    except (OSError, ValueError):
        return {}


def _replace(path: Path, content: bytes) -> None:
    """Write a small file as a whole, and return when it has reached the disk."""
    fresh = path.with_name(f"{path.name}{PART}")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
