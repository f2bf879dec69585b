"""The state folder of `penstock up`: what stays between two runs, and facts of the present run.

up.lock       held while a run lasts
account.json  the first account and its key, secret included (mode 0600)
operator.key  signs in to the console and administers (mode 0600)
cell.key      encrypts all content that is kept (mode 0600); without it, that is lost
sandbox.token what the sandbox host wants to see (mode 0600)
running.json  ports and processes of the present run; of the last one if that was killed
postgres/ fleet/ journal/ objects/ models/ weights/ logs/ run/
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.store.sealing import new_cell_key

_Record = TypeVar("_Record", bound=msgspec.Struct)
# Unix allows 107 bytes for a socket's whole path: `signals/` and a name of 30 follow.
_RUN_FOLDER_BYTES_MAX = 65


# The name of `penstock up` itself among the processes of a run.
UP = "up"


class Credentials(msgspec.Struct, frozen=True):
    """The content of account.json."""

    account: str
    key: str
    secret: str


class ProcessMark(msgspec.Struct, frozen=True):
    """One of our processes; `started` tells it from a later process with the same pid."""

    name: str
    pid: int
    started: int


class Running(msgspec.Struct, frozen=True):
    """The content of running.json."""

    host: str
    port: int
    metrics_port: int
    processes: tuple[ProcessMark, ...] = ()
    # The model that `default` means in that run.
    default_model: str = ""
    # Where operators reach control; 0 if nowhere.
    control_port: int = 0


class UpState:
    """Reads and writes the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.postgres = self.root / "postgres"
        self.fleet = self.root / "fleet"
        self.journal = self.root / "journal"
        self.objects = self.root / "objects"
        self.cell_key = self.root / "cell.key"
        self.operator_key = self.root / "operator.key"
        self.models = self.root / "models"
        self.weights = self.root / "weights"
        self.logs = self.root / "logs"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and lock it for this process."""
        # Other users may enter, because under root Postgres runs as a user of its own.
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        # The folder holds a key, and lies where people keep their code.
        (self.root / ".gitignore").write_text("*\n")
        self.models.mkdir(exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)
        # A folder made by an earlier version is open to other users.
        self.logs.chmod(0o700)
        lock = os.open(self.root / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take(lock)
            if not self.cell_key.exists():
                _write_bytes(self.cell_key, new_cell_key().encode())
            yield
        finally:
            os.close(lock)

    @property
    def is_held(self) -> bool:
        """Return whether a run holds the folder now."""
        try:
            lock = os.open(self.root / "up.lock", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    @property
    def is_gone(self) -> bool:
        """Return whether somebody has removed the folder while this process held it."""
        return not (self.root / "up.lock").exists()

    @property
    def run_folder(self) -> Path:
        """Return the folder of the workers' sockets; a temporary one if its path is too long."""
        beside = self.root / "run"
        if len(os.fsencode(beside)) <= _RUN_FOLDER_BYTES_MAX:
            return beside
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"penstock-run-{digest}"

    @property
    def signals_folder(self) -> Path:
        """Return the folder of the workers' signals, inside the run folder and gone with it."""
        return self.run_folder / "signals"

    def read_credentials(self) -> Credentials | None:
        return _read(self.root / "account.json", Credentials)

    def write_credentials(self, credentials: Credentials) -> None:
        _write(self.root / "account.json", credentials)

    def read_operator_key(self) -> str:
        """Return the secret of the key that administers; "" if there is none yet."""
        try:
            return self.operator_key.read_bytes().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def write_operator_key(self, secret: str) -> None:
        _write_bytes(self.operator_key, f"{secret}\n".encode())

    def write_sandbox_token(self) -> Path:
        """Make a new token for the sandbox host, and return its file."""
        path = self.root / "sandbox.token"
        _write_bytes(path, secrets.token_hex(32).encode())
        return path

    def read_running(self) -> Running | None:
        return _read(self.root / "running.json", Running)

    def write_running(self, running: Running) -> None:
        _write(self.root / "running.json", running)

    def forget_running(self) -> None:
        (self.root / "running.json").unlink(missing_ok=True)

    def _take(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(
                f"Another `penstock up` runs in {self.root}. Stop it, or pass another folder with"
                " --state.",
                ExitCode.TAKEN,
            ) from None


def _read(path: Path, kind: type[_Record]) -> _Record | None:
    """Read a file; None also if it cannot be decoded, because all of it can be made anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(path: Path, record: msgspec.Struct) -> None:
    _write_bytes(path, msgspec.json.encode(record))


def _write_bytes(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
