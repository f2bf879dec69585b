"""Ids of containers and of their files, and the paths of files. Pure."""

import re
from typing import Final, NewType

ContainerId = NewType("ContainerId", str)
ContainerFileId = NewType("ContainerFileId", str)

# Where a container's files are for the code in it.
DATA_FOLDER: Final = "/mnt/data"
_PATH_CHARACTERS_MAX: Final = 255
_CONTAINER: Final = re.compile(r"cntr_([0-9a-f]{32})")
_FILE: Final = re.compile(r"cfile_([0-9a-f]{32})")


def shown_container(id: ContainerId) -> str:
    """Return a container's id as clients get it."""
    return f"cntr_{id.replace('-', '')}"


def read_container_id(text: str) -> ContainerId | None:
    """Return the id that a client sent; None if it is none of ours."""
    found = _CONTAINER.fullmatch(text)
    return ContainerId(_with_dashes(found[1])) if found else None


def shown_file(id: ContainerFileId) -> str:
    """Return a file's id as clients get it."""
    return f"cfile_{id.replace('-', '')}"


def read_file_id(text: str) -> ContainerFileId | None:
    """Return the id that a client sent; None if it is none of ours."""
    found = _FILE.fullmatch(text)
    return ContainerFileId(_with_dashes(found[1])) if found else None


def path_of_upload(name: str) -> str | None:
    """Return the path of a file that a caller uploads: the last part of its name. None: no name."""
    last = re.split(r"[/\\]", name)[-1]
    return last if is_path(last) else None


def is_path(path: str) -> bool:
    """Return whether a path below the data folder is one that we keep.

    Code in a container chose it, so nothing about it is taken for granted.
    """
    is_text = 0 < len(path) <= _PATH_CHARACTERS_MAX and path.isprintable()
    return is_text and not any(part in ("", ".", "..") for part in path.split("/"))


def _with_dashes(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
