"""Bounds a container's memory, processes and CPU by control groups of version 2 or 1.

One group for each container, below one group of ours. In version 1 each controller has a hierarchy
of its own, and a container has a group in three of them. Version 1 was tried on a real kernel;
version 2 was tried only on a made-up tree of files.
"""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

import msgspec

_ROOT: Final = Path("/sys/fs/cgroup")
OURS: Final = "penstock-sandbox"
_CONTROLLERS: Final = ("memory", "pids", "cpu")
_PERIOD_US: Final = 100_000
_KILL_TRIES: Final = 100
_KILL_PAUSE_SECONDS: Final = 0.02


class BoxLimits(msgspec.Struct, frozen=True):
    """What a container may use."""

    memory_bytes: int
    processes_max: int
    cpus: float


class ControlGroups:
    """The groups of all containers of one process, below a group named `ours`."""

    def __init__(self, root: Path = _ROOT, ours: str = OURS) -> None:
        self._root = root
        self._name = ours
        self._is_unified = (root / "cgroup.controllers").exists()

    def problem(self) -> str:
        """Return what is missing on this machine, empty if nothing is."""
        if self._is_unified:
            found = set((self._root / "cgroup.controllers").read_text().split())
        else:
            found = {name for name in _CONTROLLERS if (self._root / name / "cgroup.procs").exists()}
        missing = [name for name in _CONTROLLERS if name not in found]
        if missing:
            return f"no control groups for {', '.join(missing)} below {self._root}"
        try:
            self._prepare()
        except OSError as refused:
            return f"control groups cannot be made below {self._root}: {refused.strerror}"
        return ""

    def make(self, name: str, limits: BoxLimits) -> "ControlGroup":
        """Make a container's group; a name in use raises FileExistsError."""
        if not name.replace("-", "").isalnum():
            raise ValueError("A container's name has letters, digits and `-`.")
        self._prepare()
        made: list[Path] = []
        group = ControlGroup(made, is_unified=self._is_unified)
        try:
            for ours in self._ours():
                (ours / name).mkdir()
                made.append(ours / name)
            group.limit(limits)
        except BaseException:
            group.end()
            raise
        return group

    def clear(self) -> None:
        """End what an earlier process of ours has left."""
        names = {
            child.name
            for folder in self._ours()
            if folder.exists()
            for child in folder.iterdir()
            if child.is_dir()
        }
        for name in names:
            left = [folder / name for folder in self._ours()]
            ControlGroup(left, is_unified=self._is_unified).end()
        for folder in self._ours():
            # Something may be left in it, or it was never made.
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _prepare(self) -> None:
        for folder in self._ours():
            folder.mkdir(exist_ok=True)
        if self._is_unified:
            wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
            for folder in (self._root, self._root / self._name):
                (folder / "cgroup.subtree_control").write_text(wanted)

    def _ours(self) -> list[Path]:
        if self._is_unified:
            return [self._root / self._name]
        return [self._root / name / self._name for name in _CONTROLLERS]


class ControlGroup:
    """The group of one container."""

    def __init__(self, folders: list[Path], *, is_unified: bool) -> None:
        self._folders = folders
        self._is_unified = is_unified

    @property
    def entries(self) -> list[Path]:
        """The files that a process enters by writing its id."""
        return [folder / "cgroup.procs" for folder in self._folders]

    def limit(self, limits: BoxLimits) -> None:
        quota = int(limits.cpus * _PERIOD_US)
        if self._is_unified:
            [folder] = self._folders
            self._write(folder / "memory.max", limits.memory_bytes)
            self._write_if_there(folder / "memory.swap.max", 0)
            self._write(folder / "pids.max", limits.processes_max)
            (folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
            return
        memory, processes, cpu = self._folders
        self._write(memory / "memory.limit_in_bytes", limits.memory_bytes)
        # Memory and swap together, so that none of it is swap.
        self._write_if_there(memory / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        self._write(processes / "pids.max", limits.processes_max)
        self._write(cpu / "cpu.cfs_period_us", _PERIOD_US)
        self._write(cpu / "cpu.cfs_quota_us", quota)

    def end(self, monitor: int = 0) -> bool:
        """Kill every process in it and remove it; return whether it is gone.

        Blocks for some milliseconds. The process `monitor` is killed only after the others, because
        it reaps the first process of the container; that one takes all others with it, so code that
        forks without end does not outrun this.
        """
        for attempt in range(_KILL_TRIES):
            pids = self._pids()
            if not pids:
                break
            for pid in pids - {monitor} if attempt == 0 else pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_KILL_PAUSE_SECONDS)
        return all([self._remove(folder) for folder in self._folders])

    def _pids(self) -> set[int]:
        found: set[int] = set()
        for entry in self.entries:
            with contextlib.suppress(OSError):
                found.update(map(int, entry.read_text().split()))
        return found

    def _remove(self, folder: Path) -> bool:
        for _ in range(_KILL_TRIES):
            try:
                folder.rmdir()
            except FileNotFoundError:
                return True
            except OSError:
                # The kernel has not forgotten its last process yet.
                time.sleep(_KILL_PAUSE_SECONDS)
            else:
                return True
        return False

    @staticmethod
    def _write(path: Path, value: int) -> None:
        path.write_text(str(value))

    @classmethod
    def _write_if_there(cls, path: Path, value: int) -> None:
        if path.exists():
            cls._write(path, value)
