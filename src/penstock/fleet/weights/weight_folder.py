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
from penstock.fleet.weights.weight_files import MARKER
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
    fresh = folder / f"{MARKER}.new"
    for path in {folder / each.name for each in files}:
        _sync(path)
    for path in {(folder / each.name).parent for each in files}:
        _sync(path)
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(marker))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / MARKER)
    _sync(folder)


def unmark(folder: Path) -> None:
    """Make the folder and say that it is not complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)


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
    names = {each.name for each in files}
    for root, folders, found in os.walk(folder):
        if Path(root) == folder and HUB_FOLDER in folders:
            folders.remove(HUB_FOLDER)
        for name in found:
            path = Path(root) / name
            if path.relative_to(folder).as_posix() not in names:
                path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
