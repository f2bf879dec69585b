"""Whom the embedded Postgres runs as, and what is opened for it."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store.system_user import SystemUser, let_in, system_user_for

SOMEBODY = SystemUser(uid=54321, gid=54321, is_other=True)
OURSELVES = SystemUser(uid=os.geteuid(), gid=os.getegid(), is_other=False)


@pytest.fixture
def shut() -> Iterator[Path]:
    """A folder that only its owner may enter."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def test_a_shut_folder_is_opened_for_search_and_not_for_listing(shut: Path) -> None:
    let_in(SOMEBODY, shut / "data")
    assert stat.S_IMODE(shut.stat().st_mode) == 0o701


def test_an_open_folder_keeps_its_mode(shut: Path) -> None:
    shut.chmod(0o755)
    let_in(SOMEBODY, shut / "data")
    assert stat.S_IMODE(shut.stat().st_mode) == 0o755


def test_nothing_is_opened_when_we_run_the_server_ourselves(shut: Path) -> None:
    let_in(OURSELVES, shut / "data")
    assert stat.S_IMODE(shut.stat().st_mode) == 0o700


def test_the_server_never_runs_as_root(shut: Path) -> None:
    assert system_user_for(shut / "absent").uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_data_that_is_there_is_served_by_its_owner(shut: Path) -> None:
    SOMEBODY.own(shut)
    assert system_user_for(shut) == SOMEBODY
    assert SOMEBODY.spawn_arguments() == {"user": 54321, "group": 54321, "extra_groups": []}


def test_our_own_server_is_started_as_any_process_of_ours(shut: Path) -> None:
    OURSELVES.own(shut)
    assert shut.stat().st_uid == os.geteuid()
    assert OURSELVES.spawn_arguments() == {}
