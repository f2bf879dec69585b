"""Control groups of a node, in every hierarchy of version 1, or in the one of version 2."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ALL = Path("/sys/fs/cgroup")
_TRIES = 50


def make_group(path: str) -> None:
    for hierarchy in _hierarchies():
        place = hierarchy
        for part in path.split("/"):
            above, place = place, place / part
            place.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                # A new group has none, and nothing could run in it.
                if (place / name).exists() and not (place / name).read_text().strip():
                    (place / name).write_text((above / name).read_text())


def remove_group(path: str) -> None:
    """Remove a node's groups; its processes have ended."""
    for hierarchy in (_ALL, *_ALL.iterdir()):
        for folder, _, _ in os.walk(hierarchy / path, topdown=False):
            _remove(Path(folder))


def _remove(folder: Path) -> None:
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            try:
                folder.rmdir()
            except OSError:
                # The kernel has not buried its last process yet.
                time.sleep(0.1)
                continue
        return


def _hierarchies() -> Iterator[Path]:
    if (_ALL / "cgroup.controllers").exists():
        yield _ALL
        return
    for each in _ALL.iterdir():
        if (each / "cgroup.procs").exists() and each.name != "unified":
            yield each
