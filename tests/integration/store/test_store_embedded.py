"""The embedded Postgres as `penstock up` uses it: started, stopped, killed, started again."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import errors
from penstock.store.embedded import EmbeddedPostgres
from penstock.store.system_user import system_user_for

_OWNER = """
import sys, time
from pathlib import Path
from penstock.store.embedded import EmbeddedPostgres
EmbeddedPostgres(Path(sys.argv[1])).start()
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    yield made
    shutil.rmtree(made)


def _run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def _is_up(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def test_data_is_found_again_after_a_stop(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "new" / "folder")
    dsn = server.start()
    _run(dsn, "create table kept as select 42 as n")
    server.stop()
    assert not _is_up(dsn)
    assert server.start() == dsn
    assert _run(dsn, "select n from kept") == [(42,)]
    server.stop()
    server.stop()


def test_commits_are_durable_unless_a_test_says_otherwise(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    dsn = server.start()
    assert _run(dsn, "show fsync") == [("on",)]
    assert _run(dsn, "show synchronous_commit") == [("on",)]
    assert _run(dsn, "show shared_buffers") == [("64MB",)]
    assert _run(dsn, "show listen_addresses") == [("",)]
    server.stop()


def test_only_the_owner_may_open_the_socket(folder: Path) -> None:
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    server.start()
    assert stat.S_IMODE((folder / "socket").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "data").stat().st_mode) == 0o700
    server.stop()


def test_a_kill_of_the_owner_ends_the_server_and_blocks_no_start(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder)], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        server = EmbeddedPostgres(folder)
        _run(server.dsn, "create table kept as select 42 as n")
        owner.send_signal(signal.SIGKILL)
    # At once, while the first server is still shutting down.
    assert server.start() == server.dsn
    assert _run(server.dsn, "select n from kept") == [(42,)]
    server.stop()


def test_the_server_of_a_killed_owner_goes_by_itself(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder)], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        dsn = EmbeddedPostgres(folder).dsn
        assert _is_up(dsn)
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 15
    while _is_up(dsn) or (folder / "data" / "postmaster.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_second_server_on_the_same_folder_is_refused(folder: Path) -> None:
    first = EmbeddedPostgres(folder, fast_unsafe=True)
    dsn = first.start()
    with pytest.raises(errors.StoreUnavailable, match="Another process"):
        EmbeddedPostgres(folder, lock_seconds=0.2).start()
    assert _is_up(dsn)
    first.stop()


def test_a_stale_pid_file_of_a_living_process_does_not_block_the_start(folder: Path) -> None:
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    server.start()
    pid_file = folder / "data" / "postmaster.pid"
    content = pid_file.read_text()
    server.stop()
    user = system_user_for(folder / "data")
    with subprocess.Popen(["sleep", "60"], **user.spawn_arguments()) as bystander:
        pid_file.write_text(content.replace(content.split("\n")[0], str(bystander.pid)))
        assert _is_up(server.start())
        server.stop()
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("name", ["short", "long" * 25])
def test_a_crash_of_the_server_is_recovered_at_the_next_start(folder: Path, name: str) -> None:
    server = EmbeddedPostgres(folder / name)
    dsn = server.start()
    _run(dsn, "create table kept as select 42 as n")
    postmaster = int((folder / name / "data" / "postmaster.pid").read_text().split("\n")[0])
    os.kill(postmaster, signal.SIGKILL)
    server.stop()
    server.start()
    assert _run(dsn, "select n from kept") == [(42,)]
    server.stop()


def test_a_folder_too_long_for_a_socket_works(folder: Path) -> None:
    deep = folder / ("d" * 100) / 'odd, "name"'
    server = EmbeddedPostgres(deep, fast_unsafe=True)
    dsn = server.start()
    socket_folder = Path(str(conninfo_to_dict(dsn)["host"]))
    assert _is_up(dsn)
    assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700
    server.stop()
    assert not socket_folder.exists()


def test_an_odd_folder_name_works(folder: Path) -> None:
    server = EmbeddedPostgres(folder / 'a, "b" & c', fast_unsafe=True)
    assert _is_up(server.start())
    server.stop()


def test_a_socket_folder_of_somebody_else_is_refused(folder: Path) -> None:
    trap = folder / "trap"
    trap.mkdir()
    (folder / "socket").symlink_to(trap)
    with pytest.raises(errors.StoreUnavailable, match="somebody else"):
        EmbeddedPostgres(folder, fast_unsafe=True).start()


def test_a_half_made_data_folder_is_made_anew(folder: Path) -> None:
    (folder / "data.unfinished").mkdir()
    (folder / "data.unfinished" / "PG_VERSION").write_text("18")
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    assert _is_up(server.start())
    server.stop()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    server.start()
    server.stop()
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(errors.StoreUnavailable, match="no_such_setting"):
        server.start()


def test_data_of_an_unknown_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(errors.StoreUnavailable, match="Postgres 9"):
        EmbeddedPostgres(folder).start()
