"""One Postgres server of a cluster: it can lead or follow, and be killed with all its processes.

It ends with this process, a kill -9 of it included, and listens on 127.0.0.1 only.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from tests.chaos.process_tree import kill_tree
from tests.integration.cells.gateway_process import free_port

from penstock.store.system_user import SystemUser

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_TOOL_SECONDS = 120.0
_USER = "penstock"

# Processes are killed here, never the machine: what was written to files outlives them, synced or
# not, and three servers that sync share one disk with everything else.
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "512MB",
    "wal_keep_size": "1GB",
    # Without it a server that was killed cannot be rewound.
    "wal_log_hints": "on",
    "wal_retrieve_retry_interval": "200ms",
    "log_checkpoints": "off",
    "log_min_messages": "log",
}

# The shell becomes the server. Beside it a watcher reads our end of a pipe, which closes when this
# process dies, however it dies.
_WATCHED = """
exec 3<&0 </dev/null
( ( read -r _ <&3 || kill -INT $$ ) & )
exec "$@" 3<&-
"""


class PostgresServer:
    """`names` are those of all servers of the cluster: any one of them makes a commit safe."""

    def __init__(
        self, binaries: Path, folder: Path, user: SystemUser, name: str, names: Sequence[str]
    ) -> None:
        self.name = name
        self.port = free_port()
        self._binaries = binaries
        self._user = user
        self._data = folder / name
        self._log = folder / f"{name}.log"
        self._quorum = f"ANY 1 ({', '.join(names)})"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return make_conninfo(
            host="127.0.0.1", port=self.port, user=_USER, dbname="postgres", connect_timeout=5
        )

    def create(self) -> None:
        """As the first of its cluster."""
        self._make_folder()
        options = ["-U", _USER, "-E", "UTF8", "--no-locale", "--auth=trust", "--no-sync"]
        self._run_tool("initdb", "-D", str(self._data), *options)
        # In the file, and not on the command line: a rewind first recovers what was killed, with
        # these or else without the log that it then needs. Clones come with it.
        settings = {**_OPTIONS, "synchronous_standby_names": self._quorum}
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(lines)

    def clone(self, primary: "PostgresServer") -> None:
        """Anew, from nothing."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._make_folder()
        options = ["--checkpoint=fast", "--wal-method=stream", "--no-sync"]
        self._run_tool("pg_basebackup", "-D", str(self._data), "-d", primary.dsn, *options)

    def rewind(self, primary: "PostgresServer") -> bool:
        """Give up what the primary never had. False: it is not possible, and a clone is needed."""
        # The timeline it was promoted to is in its control file only after a checkpoint.
        primary.query("checkpoint")
        try:
            self._run_tool("pg_rewind", "-D", str(self._data), f"--source-server={primary.dsn}")
        except subprocess.CalledProcessError as error:
            print(f"postgres: {self.name} could not be rewound: {error.stderr[-300:]}", flush=True)
            return False
        return True

    def follow(self, primary: "PostgresServer") -> None:
        """From now on, or from the next start."""
        conninfo = make_conninfo(primary.dsn, application_name=self.name)
        quoted = conninfo.replace("'", "''")
        self._write("postgresql.auto.conf", f"primary_conninfo = '{quoted}'\n")
        if self._process is None:
            self._write("standby.signal", "")
        else:
            self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        assert self._process is None, "this server was started already"
        # It names a process of the past; its number may be anybody's by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        server = [str(self._binaries / "postgres"), "-D", str(self._data)]
        settings = [f"--port={self.port}", f"--cluster_name={self.name}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, "sh", *server, *settings],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                **self._user.spawn_arguments(),
            )
        self._wait_until_ready(self._process)

    def kill(self) -> None:
        """kill -9 of the server and of every session's process."""
        process = self._take_process()
        kill_tree(process.pid)
        process.wait(_STOP_SECONDS)
        self._dismiss_watcher(process)

    def stop(self) -> None:
        if self._process is None:
            return
        process = self._take_process()
        # Immediately: nobody reads this data again.
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait(_STOP_SECONDS)
        self._dismiss_watcher(process)

    def query(self, statement: str) -> Any:
        """The first column of the first row, if there is one."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    def _make_folder(self) -> None:
        self._data.mkdir(mode=0o700)
        self._user.own(self._data)

    def _write(self, name: str, text: str) -> None:
        path = self._data / name
        path.write_text(text)
        self._user.own(path)

    def _run_tool(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._binaries / tool), *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=_TOOL_SECONDS,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            **self._user.spawn_arguments(),
        )

    def _take_process(self) -> subprocess.Popen[bytes]:
        process, self._process = self._process, None
        assert process is not None, "this server does not run"
        return process

    def _dismiss_watcher(self, process: subprocess.Popen[bytes]) -> None:
        """A line instead of the pipe's end: the server has gone, touch nobody who has its pid."""
        assert process.stdin is not None
        with process.stdin as watcher:
            watcher.write(b"gone\n")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        tail = self._log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"Postgres {self.name} did not start: {tail}")
