"""What is seen of the gateway's workers while they are soaked: memory, open files, connections.

Read from /proc, from outside. A socket counts by where it leads; what a client or an engine has
closed and the worker has not counts as an open file, for that is what a leak looks like.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

_ESTABLISHED = "01"


class Look(msgspec.Struct, frozen=True):
    """One worker at one moment: seconds, kilobytes, and counts."""

    at: float
    rss_kilobytes: float
    # Open files without the connections below.
    files: int
    clients: int
    engines: int


class Socket(msgspec.Struct, frozen=True):
    """A TCP socket of this machine."""

    local_port: int
    remote_port: int
    state: str


def look_at(
    pids: Collection[int], at: float, *, port: int, engine_ports: Collection[int]
) -> dict[int, Look]:
    """Every worker that lives, at the same moment."""
    sockets = _sockets()
    looks = {}
    for pid in pids:
        # A worker that is gone is missed by its pid at the end.
        with suppress(FileNotFoundError, ProcessLookupError):
            files = _open_files(pid)
            found = [sockets[name] for name in files if name in sockets]
            live = [each for each in found if each.state == _ESTABLISHED]
            clients = sum(each.local_port == port for each in live)
            engines = sum(each.remote_port in engine_ports for each in live)
            others = len(files) - clients - engines
            looks[pid] = Look(at, _rss_kilobytes(pid), others, clients, engines)
    return looks


def _sockets() -> dict[str, Socket]:
    """By the name that a process has for it among its open files."""
    found = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        local, remote = (int(words[index].rpartition(":")[2], 16) for index in (1, 2))
        found[f"socket:[{words[9]}]"] = Socket(local, remote, words[3])
    return found


def _open_files(pid: int) -> list[str]:
    names = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed while we look.
        with suppress(FileNotFoundError):
            names.append(str(path.readlink()))
    return names


def _rss_kilobytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0.0)
