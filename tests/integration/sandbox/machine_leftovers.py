"""What a sandbox host could leave on its machine: processes, control groups and mounts."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from penstock.sandbox.control_groups import OURS

_ROOT = Path("/sys/fs/cgroup")
# Fields of /proc/ID/stat, counted from behind the name.
_STATE, _PARENT, _BEGAN = 0, 1, 19


def processes_of_users(users: range) -> list[str]:
    """The ids of processes of these users, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if folder.stat().st_uid in users and "State:\tZ" not in (folder / "status").read_text():
                found.append(folder.name)
    return found


def started(ids: Iterable[str]) -> set[tuple[int, str]]:
    """These processes, each with the time at which it began: ids are used again."""
    found = set()
    for id in ids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add((int(id), _stat(id)[_BEGAN]))
    return found


def processes_below(root: int) -> set[tuple[int, str]]:
    """A process's descendants, whichever of its threads started them."""
    children: dict[str, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children.setdefault(_stat(folder.name)[_PARENT], []).append(folder.name)
    found = list(children.get(str(root), ()))
    for id in found:
        found += children.get(id, ())
    return started(found)


def still_there(processes: Iterable[tuple[int, str]]) -> list[str]:
    """Those of these processes that have not ended, zombies left out."""
    left = []
    for id, began in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = _stat(str(id))
            if stat[_BEGAN] == began and stat[_STATE] != "Z":
                left.append(f"process {id}")
    return left


def _stat(id: str) -> list[str]:
    """The fields of /proc/ID/stat behind the program's name, which may have spaces."""
    return (Path("/proc") / id / "stat").read_text().rpartition(")")[2].split()


def groups_below(port: int) -> list[Path]:
    """The control groups of containers of the host on this port."""
    name = f"{OURS}-{port}"
    places = [_ROOT / name, *(_ROOT / each / name for each in ("memory", "pids", "cpu"))]
    return [
        child for place in places if place.is_dir() for child in place.iterdir() if child.is_dir()
    ]


def mounts() -> set[str]:
    """The mounts that this machine's own namespace has."""
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
