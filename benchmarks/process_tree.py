"""CPU time and memory of a process and its children, from /proc."""

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def pids_of(root: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """User and system time of the tree so far, with that of children it has waited for."""
    ticks = 0
    for pid in pids_of(root):
        if fields := _stat(pid):
            ticks += sum(int(fields[index]) for index in (11, 12, 13, 14))
    return ticks / _TICKS_PER_SECOND


def pss_megabytes(root: int) -> float:
    """Proportional memory of the tree: a page that two processes share counts half for each."""
    kilobytes = 0
    for pid in pids_of(root):
        try:
            rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        lines = [line.split() for line in rollup.splitlines()]
        kilobytes += sum(int(line[1]) for line in lines if line[0] == "Pss:")
    return kilobytes / 1024


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on, or None if the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
