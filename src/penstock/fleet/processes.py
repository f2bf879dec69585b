"""Identifies processes by pid and start time, because a pid may have been reused.

Linux only (/proc). Imports little, because every supervisor loads it. `signal_group` does not check
its target: call `group_is_ours` first.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class ProcessStat(NamedTuple):
    """The fields of /proc/PID/stat that identify a process."""

    state: str
    group: int
    start_ticks: int


def read_stat(pid: int) -> ProcessStat | None:
    """Return a process's stat fields, or None if there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, which may contain spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(fields[0], int(fields[2]), int(fields[19]))


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if it does not exist."""
    stat = read_stat(pid)
    return stat.start_ticks if stat is not None else 0


def is_running(pid: int, started: int) -> bool:
    """Return whether the process with this pid and start time runs. A zombie does not."""
    if pid <= 0 or started <= 0:
        return False
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == started and stat.state not in "ZX"


def boot_id() -> str:
    """Return the id of the current boot; pids recorded under another boot id are invalid."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Some sandboxes lack this file; there, only start times identify processes.
        return "unknown"


def group_is_ours(group: int, leader_started: int, log: Path) -> bool:
    """Return whether a process group still has processes of the engine that writes to this log.

    The leader is identified by its start time. Workers that outlive it are identified by the log
    they inherited as standard output; names and environments fail, because engines retitle them.
    """
    if group <= 1:
        return False
    if is_running(group, leader_started):
        return True
    return any(_writes_to(pid, log) for pid in _members(group))


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a whole group; a group that has just ended is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def signal_process(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to a process if its pid still belongs to the process started then."""
    if is_running(pid, started):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def group_listens_on(group: int, port: int) -> bool:
    """Return whether a process of the group, and not some other server, listens on this port."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    return any(sockets & _open_sockets(pid) for pid in _members(group))


def _listening_inodes(port: int) -> list[str]:
    inodes = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                is_listening = fields[3] == "0A"
                if is_listening and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.append(fields[9])
    return inodes


def _open_sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(descriptor.readlink()))
    return found


def _members(group: int) -> list[int]:
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    found = []
    for pid in pids:
        stat = read_stat(pid)
        if stat is not None and stat.group == group and stat.state not in "ZX":
            found.append(pid)
    return found


def _writes_to(pid: int, log: Path) -> bool:
    try:
        wanted = log.stat()
    except OSError:
        return False
    for descriptor in ("1", "2"):
        with contextlib.suppress(OSError):
            if os.path.samestat((_PROC / str(pid) / "fd" / descriptor).stat(), wanted):
                return True
    return False
