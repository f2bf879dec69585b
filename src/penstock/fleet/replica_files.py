"""The state folder: what a keeper needs after its own restart, with one folder per replica.

    keeper.alive  keeper.id  keeper.lock
    orders.json              what operators asked of the keeper last
    replicas/ID/state.json   written once before the start, then by the supervisor alone
    replicas/ID/mark.json    written by the keeper alone: state and generation
    replicas/ID/engine.log
    ended/ID/                the same files of the replicas that ended last

JSON files and keeper.id are replaced as a whole. All functions block: call them in a thread.
"""

import contextlib
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.clock import new_id
from penstock.errors import Superseded
from penstock.fleet.intent import KeeperOrders
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState

_Record = TypeVar("_Record", bound=msgspec.Struct)
_TAIL_BYTES = 4096
_LINE_CHARACTERS_MAX = 200
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class ReplicaFile(msgspec.Struct, frozen=True):
    """The content of state.json. Pids are 0 until the processes exist."""

    id: ReplicaId
    provider: str
    want: str
    model: ModelId
    url: str
    generation: int = 1
    port: int = 0
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    gpus: tuple[str, ...] = ()
    engine_key: str = ""
    leader: ReplicaId = ReplicaId("")
    master_port: int = 0
    alive_file: str = ""
    orphan_seconds: float = 600.0
    stop_grace_seconds: float = 75.0
    log_bytes_max: int = 16 * 2**20
    boot: str = ""
    supervisor_pid: int = 0
    supervisor_started: int = 0
    engine_pid: int = 0
    engine_started: int = 0
    exit_code: int | None = None
    ended_as: str = ""


class Mark(msgspec.Struct, frozen=True):
    """The content of mark.json: the keeper's state of a replica. `changed_at` is wall time."""

    state: ReplicaState
    generation: int
    changed_at: float
    served_name: str = ""
    detail: str = ""


class StateFolder:
    """Reads and writes the state folder; does not inspect processes."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._replicas = self._path / "replicas"
        self._ended = self._path / "ended"
        self._lock: int | None = None
        self.alive_file = self._path / "keeper.alive"

    def open(self) -> str:
        """Create the folder, lock it for this process, and return the keeper's permanent id."""
        self._path.mkdir(parents=True, exist_ok=True)
        for folder in (self._replicas, self._ended):
            folder.mkdir(mode=0o700, exist_ok=True)
        if self._lock is None:
            self._lock = self._take_lock()
        self.touch()
        id_file = self._path / "keeper.id"
        if not id_file.exists():
            _replace(id_file, new_id().encode())
        return id_file.read_text().strip()

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def touch(self) -> None:
        """Record that the keeper is alive: supervisors watch this file's modification time."""
        self.alive_file.touch()

    def folder_of(self, replica: ReplicaId) -> Path:
        return self._replicas / replica

    def read_all(self) -> list[ReplicaFile]:
        """Return every replica, oldest first. A folder without a state file is skipped."""
        names = sorted(entry.name for entry in self._replicas.iterdir())
        found = (_read(self._replicas / name / "state.json", ReplicaFile) for name in names)
        return [file for file in found if file is not None]

    def read(self, replica: ReplicaId) -> ReplicaFile | None:
        return _read(self.folder_of(replica) / "state.json", ReplicaFile)

    def write(self, file: ReplicaFile) -> Path:
        """Write a replica's state file, creating its folder, and return the file's path."""
        folder = self.folder_of(file.id)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / "state.json"
        _replace(path, msgspec.json.encode(file))
        return path

    def read_mark(self, replica: ReplicaId) -> Mark | None:
        return _read(self.folder_of(replica) / "mark.json", Mark)

    def write_mark(self, replica: ReplicaId, mark: Mark) -> None:
        # A replica without a folder needs no mark, as no keeper can adopt it.
        with contextlib.suppress(FileNotFoundError):
            _replace(self.folder_of(replica) / "mark.json", msgspec.json.encode(mark))

    def read_orders(self) -> KeeperOrders:
        return _read(self._path / "orders.json", KeeperOrders) or KeeperOrders()

    def write_orders(self, orders: KeeperOrders) -> None:
        _replace(self._path / "orders.json", msgspec.json.encode(orders))

    def read_log(self, replica: ReplicaId, after: int | None, most: int) -> tuple[bytes, int]:
        """Return a part of an engine's log, also of an ended one, and where the next part begins.

        Without `after`, or when the log was begun anew since, it is the last part.
        """
        for folder in (self._replicas, self._ended):
            try:
                with (folder / replica / "engine.log").open("rb") as log:
                    size = log.seek(0, os.SEEK_END)
                    is_known = after is not None and after <= size
                    start = after if is_known and after is not None else max(0, size - most)
                    log.seek(start)
                    text = log.read(most)
                    return text, start + len(text)
            except OSError:
                continue
        return b"", 0

    def log_of(self, replica: ReplicaId) -> Path:
        return self.folder_of(replica) / "engine.log"

    def last_line(self, replica: ReplicaId) -> str:
        """Return the engine's last log line without control characters; "" if there is none."""
        try:
            with self.log_of(replica).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = log.read(_TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""
        lines = [_CONTROL.sub("", line).strip() for line in re.split(r"[\r\n]+", text)]
        return next((line for line in reversed(lines) if line), "")[:_LINE_CHARACTERS_MAX]

    def retire(self, replica: ReplicaId, *, kept: int) -> None:
        """Move an ended replica's folder to `ended`, and delete all but the newest `kept`."""
        with contextlib.suppress(FileNotFoundError):
            self.folder_of(replica).rename(self._ended / replica)
        names = sorted((entry.name for entry in self._ended.iterdir()), reverse=True)
        for name in names[kept:]:
            shutil.rmtree(self._ended / name, ignore_errors=True)

    def _take_lock(self) -> int:
        lock = os.open(self._path / "keeper.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Superseded(f"Another keeper runs with {self._path}: stop it first.") from None
        return lock


def _read(path: Path, kind: type[_Record]) -> _Record | None:
    """Return the file's record, or None if there is no file; raise OSError if it is invalid."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not content:
        # Only a power cut leaves an empty file, and no process survived that.
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as failure:
        raise OSError(f"{path} cannot be understood ({failure}); take it away.") from None


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
