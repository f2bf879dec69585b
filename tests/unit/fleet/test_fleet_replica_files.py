"""The state folder: one keeper at a time, nothing half written, nothing kept for ever."""

import os
from pathlib import Path

import pytest

from penstock.errors import Superseded
from penstock.fleet.processes import boot_id, group_is_ours, is_running, start_ticks
from penstock.fleet.replica_files import Mark, ReplicaFile, StateFolder
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    opened = StateFolder(tmp_path / "fleet")
    opened.open()
    return opened


def _file(name: str) -> ReplicaFile:
    return ReplicaFile(ReplicaId(name), "process", "w", ModelId("m"), "http://127.0.0.1:1")


def test_a_second_keeper_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first, second = StateFolder(tmp_path), StateFolder(tmp_path)
    keeper = first.open()
    with pytest.raises(Superseded, match="Another keeper"):
        second.open()
    first.close()
    assert second.open() == keeper
    second.close()


def test_what_was_written_is_read_oldest_first(folder: StateFolder) -> None:
    for name in ("b", "a"):
        folder.write(_file(name))
    assert [file.id for file in folder.read_all()] == ["a", "b"]
    assert folder.read(ReplicaId("c")) is None


def test_only_the_owner_may_read_what_may_hold_secrets(folder: StateFolder) -> None:
    path = folder.write(_file("a"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_cannot_be_understood_is_unknown_and_not_absent(folder: StateFolder) -> None:
    path = folder.write(_file("a"))
    path.write_text("{")
    with pytest.raises(OSError, match="cannot be understood"):
        folder.read_all()
    path.write_text("")
    assert folder.read_all() == []


def test_a_mark_is_kept_and_a_lost_folder_takes_none(folder: StateFolder) -> None:
    folder.write(_file("a"))
    mark = Mark(ReplicaState.DRAINING, 3, 17.0, "tiny", "drained by command")
    folder.write_mark(ReplicaId("a"), mark)
    assert folder.read_mark(ReplicaId("a")) == mark
    folder.write_mark(ReplicaId("never"), mark)
    assert folder.read_mark(ReplicaId("never")) is None


def test_the_last_line_is_fit_for_a_terminal(folder: StateFolder) -> None:
    folder.write(_file("a"))
    assert folder.last_line(ReplicaId("a")) == ""
    log = folder.log_of(ReplicaId("a"))
    log.write_bytes(b"x" * 9000 + b"\nfirst\n\x1b[32mLoading\x1b[0m 10%\rLoading\x07 20%\r\n\n")
    assert folder.last_line(ReplicaId("a")) == "Loading 20%"
    log.write_bytes(b"y" * 9000)
    assert folder.last_line(ReplicaId("a")) == "y" * 200


def test_ended_replicas_are_kept_up_to_the_limit(folder: StateFolder, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        folder.write(_file(name))
        folder.retire(ReplicaId(name), kept=2)
    assert folder.read_all() == []
    assert sorted(entry.name for entry in (tmp_path / "fleet/ended").iterdir()) == ["b", "c"]


def test_a_process_is_known_by_pid_and_start_time_together() -> None:
    me, started = os.getpid(), start_ticks(os.getpid())
    assert is_running(me, started)
    assert not is_running(me, started + 1)
    assert not is_running(0, started)
    assert not is_running(me, 0)
    assert len(boot_id()) == 36


def test_a_group_without_its_leader_is_known_by_the_log_that_it_writes(tmp_path: Path) -> None:
    group = os.getpgrp()
    log = tmp_path / "engine.log"
    assert not group_is_ours(group, 1, log)
    log.touch()
    assert not group_is_ours(group, 1, log)
    assert not group_is_ours(1, start_ticks(1), log)
