"""A Postgres primary with two standbys, any one of which must have a commit before it counts.

There is no agent that watches: who kills the primary calls `fail_over`, as an operator's would do
it. What was acknowledged survives, for the standby that received most is promoted. All of it
blocks: call it in a thread.
"""

import shutil
import tempfile
import time
from pathlib import Path

from psycopg.conninfo import make_conninfo
from tests.chaos.postgres_server import PostgresServer
from tests.chaos.started import Started
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.network_postgres import POSTGRES_PROGRAMS

from penstock.store.system_user import let_in, system_user_for

_NAMES = ("alder", "birch", "cedar")
_SETTLE_SECONDS = 60.0


class PostgresCluster(Started):
    """`with PostgresCluster() as cluster:` starts three servers and always ends them."""

    def __init__(self, binaries: Path | None = None) -> None:
        """`binaries` of another Postgres than the one in our packages."""
        super().__init__()
        self._binaries = POSTGRES_PROGRAMS if binaries is None else binaries
        self.failovers = 0
        self._killed_at = 0.0
        self._servers: list[PostgresServer] = []
        self._primary: PostgresServer
        # How long it was from each kill until there was a primary again.
        self.seconds_without: list[float] = []

    @property
    def primary(self) -> PostgresServer:
        """The last one that was promoted, dead or alive."""
        return self._primary

    @property
    def dsn(self) -> str:
        """All servers; whoever connects finds the one that takes writes."""
        return make_conninfo(
            self._servers[0].dsn,
            host=",".join("127.0.0.1" for _ in self._servers),
            port=",".join(str(server.port) for server in self._servers),
            target_session_attrs="read-write",
        )

    def kill_primary(self) -> str:
        """kill -9 and nothing else; the name of the killed one."""
        self._killed_at = time.monotonic()
        self.primary.kill()
        return self.primary.name

    def fail_over(self) -> str:
        """After a kill: promote one standby, and make the other two follow it; its name."""
        killed = self.primary
        standbys = [server for server in self._servers if server is not killed]
        for standby in standbys:
            _wait_until_deaf(standby)
        # Only one of them need have the last commits: with `ANY 1` it is the one that is ahead.
        winner = max(standbys, key=_received)
        winner.query("select pg_promote(true, 60)")
        self.seconds_without.append(time.monotonic() - self._killed_at)
        self._primary = winner
        self.failovers += 1
        for standby in standbys:
            if standby is not winner:
                standby.follow(winner)
        if not killed.rewind(winner):
            killed.clone(winner)
        killed.follow(winner)
        killed.start()
        self._wait_until_followed()
        return winner.name

    def _start(self) -> None:
        # Not below a folder that only we may enter: as root, Postgres runs as somebody else.
        folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        user = system_user_for(folder / "data")
        folder.chmod(0o755)
        user.own(folder)
        let_in(user, self._binaries / "postgres")
        self._servers = [
            PostgresServer(self._binaries, folder, user, name, _NAMES) for name in _NAMES
        ]
        for server in self._servers:
            self._stack.callback(server.stop)
        self._primary, *standbys = self._servers
        self.primary.create()
        self.primary.start()
        for standby in standbys:
            standby.clone(self.primary)
            standby.follow(self.primary)
            standby.start()
        self._wait_until_followed()

    def _wait_until_followed(self) -> None:
        following = "select count(*) from pg_stat_replication where state = 'streaming'"
        others = len(self._servers) - 1
        eventually(lambda: self.primary.query(following) == others, _SETTLE_SECONDS)


def _wait_until_deaf(standby: PostgresServer) -> None:
    """Until it has read all that its dead primary had sent."""
    hearing = "select count(*) from pg_stat_wal_receiver where status = 'streaming'"
    eventually(lambda: standby.query(hearing) == 0, _SETTLE_SECONDS)


def _received(standby: PostgresServer) -> int:
    """How far its log goes, in bytes."""
    last = "greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
    return int(standby.query(f"select pg_wal_lsn_diff({last}, '0/0')"))
