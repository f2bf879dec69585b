"""Saves the files that an answer cites, under names that cannot leave their folder."""

from collections.abc import Callable
from itertools import count
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import msgspec

from penstock.cli.exit_codes import CommandFailed

_NAME_CHARACTERS_MAX: Final = 100
_NAMES_MAX: Final = 1000


class CitedFile(msgspec.Struct, frozen=True):
    """A file of a container that an answer names."""

    container_id: str
    file_id: str
    filename: str


def save_files(
    files: list[CitedFile], folder: Path, download: Callable[[CitedFile, BinaryIO], None]
) -> list[Path]:
    """Save files in a folder, which is made if it is not there. No file is replaced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_save(file, folder, download) for file in files]
    except OSError as failure:
        raise CommandFailed(str(failure)) from None


def safe_name(filename: str) -> str:
    """Return a name in one folder, neither hidden nor with characters that steer a terminal.

    The model has written it, so it is not trusted.
    """
    last = PurePosixPath(filename.replace("\\", "/")).name
    kept = "".join(letter for letter in last if letter.isprintable()).lstrip(".")
    return kept[-_NAME_CHARACTERS_MAX:] or "file"


def _save(file: CitedFile, folder: Path, download: Callable[[CitedFile, BinaryIO], None]) -> Path:
    name = Path(safe_name(file.filename))
    for number in count(1):
        path = folder / (name if number == 1 else f"{name.stem}-{number}{name.suffix}")
        try:
            # Not through a link, and not over a file that is there.
            target = path.open("xb")
        except FileExistsError:
            if number == _NAMES_MAX:
                raise
            continue
        break
    try:
        with target:
            download(file, target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
