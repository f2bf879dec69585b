"""What a sandbox host could leave on its machine: processes, control groups and mounts."""

import contextlib
from pathlib import Path

from penstock.sandbox.control_groups import OURS

_ROOT = Path("/sys/fs/cgroup")


def processes_of_users(users: range) -> list[str]:
    """The ids of processes of these users, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if folder.stat().st_uid in users and "State:\tZ" not in (folder / "status").read_text():
                found.append(folder.name)
    return found


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
