"""Workers of one host see each other's loads at once, and a bad table is as good as none."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.records.host_load import HostLoad
from penstock.records.replica import ReplicaId
from penstock.signals import LoadTable, SignalsSettings, open_table, worker_identity
from penstock.signals.table_file import Form

R1, R2, R3 = ReplicaId("r1"), ReplicaId("r2"), ReplicaId("r3")
LOAD = HostLoad(1000.0, 300.0, 50.0, 60.0, 5.0, 2.0, 7000.0)


class Host:
    """Opens tables in one folder and closes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open_tables: list[LoadTable] = []

    def settings(self, *, replicas_max: int = 8, workers_max: int = 4) -> SignalsSettings:
        return SignalsSettings(
            folder=str(self.folder), replicas_max=replicas_max, workers_max=workers_max
        )

    def open(self, now: float = 100.0, settings: SignalsSettings | None = None) -> LoadTable:
        table = open_table(settings or self.settings(), now)
        assert table is not None
        self.open_tables.append(table)
        return table

    def close(self, table: LoadTable) -> None:
        self.open_tables.remove(table)
        table.close()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    # A relative folder, as the default is: pytest's own paths are too long for a socket.
    monkeypatch.chdir(tmp_path)
    host = Host(Path("signals"))
    yield host
    for table in host.open_tables:
        table.close()


def beat_all(*tables: LoadTable, now: float = 100.0) -> None:
    # Twice, because the first only sees those that beat before it.
    for table in (*tables, *tables):
        table.beat(now)


def test_a_worker_sees_what_the_others_have_at_once(host: Host) -> None:
    one, two, three = host.open(), host.open(), host.open()
    beat_all(one, two, three)
    one.write(R1, LOAD)
    assert two.others(R1) == LOAD
    later = HostLoad(10.0, 7.0, 55.0, 65.0, 1.0, 1.0, 70.0)
    two.write(R1, later)
    # Sums; the head that is oldest; the progress that is newest.
    assert three.others(R1) == HostLoad(1010.0, 300.0, 50.0, 65.0, 6.0, 3.0, 7070.0)
    assert one.others(R1) == later
    one.write(R1, HostLoad(progress_at=70.0))
    assert three.others(R1) == HostLoad(10.0, 7.0, 55.0, 70.0, 1.0, 1.0, 70.0)
    assert one.others(R2) == HostLoad()


def test_a_worker_alone_has_no_others(host: Host) -> None:
    one = host.open()
    one.write(R1, LOAD)
    assert one.others(R1) is None
    assert one.live_workers() == 1


def test_a_worker_that_no_longer_beats_no_longer_counts(host: Host) -> None:
    one, two = host.open(), host.open()
    beat_all(one, two)
    two.write(R1, LOAD)
    assert one.others(R1) == LOAD
    one.beat(101.0)
    assert one.others(R1) == LOAD
    one.beat(101.1)
    assert one.others(R1) is None
    two.beat(101.2)
    one.beat(101.2)
    assert one.others(R1) == LOAD


def test_a_beat_from_before_the_host_restarted_does_not_count(host: Host) -> None:
    one, two = host.open(now=90_000.0), host.open(now=90_000.0)
    two.write(R1, LOAD)
    one.beat(10.0)
    assert one.live_workers() == 1


def test_the_next_owner_of_a_column_begins_empty_under_the_same_name(host: Host) -> None:
    one, two = host.open(), host.open()
    name = worker_identity(two)
    two.write(R1, LOAD)
    host.close(two)
    one.beat(100.0)
    assert one.live_workers() == 1
    again = host.open()
    assert (again.column, again.host) == (1, one.host)
    assert worker_identity(again) == name
    one.beat(100.0)
    assert one.live_workers() == 2
    assert one.others(R1) == HostLoad()


def test_workers_have_columns_of_their_own_and_the_lowest_free_one(host: Host) -> None:
    tables = [host.open() for _ in range(4)]
    assert [table.column for table in tables] == [0, 1, 2, 3]
    assert len({worker_identity(table).sender for table in tables}) == 4
    assert {worker_identity(table).host for table in tables} == {tables[0].host}
    host.close(tables[1])
    assert host.open().column == 1


def test_one_worker_too_many_does_without_and_is_a_host_of_its_own(host: Host) -> None:
    tables = [host.open() for _ in range(4)]
    assert open_table(host.settings(), 100.0) is None
    assert worker_identity(None).host != tables[0].host


def test_replicas_beyond_the_limit_are_counted_and_harmless(host: Host) -> None:
    settings = host.settings(replicas_max=2)
    one, two = host.open(settings=settings), host.open(settings=settings)
    beat_all(one, two)
    for replica in (R1, R2, R3):
        one.write(replica, LOAD)
    assert [two.others(each) for each in (R1, R2, R3)] == [LOAD, LOAD, None]
    assert (one.missing, two.missing) == (1, 1)


def test_rows_of_replicas_that_are_gone_go_to_new_ones(host: Host) -> None:
    settings = host.settings(replicas_max=2)
    one, two = host.open(settings=settings), host.open(settings=settings)
    beat_all(one, two)
    one.write(R1, LOAD)
    one.write(R2, LOAD)
    one.keep_only([R2, R3])
    one.write(R3, LOAD)
    assert two.others(R3) is None
    for now in (120.0, 140.0, 160.0, 180.0):
        beat_all(one, two, now=now)
    one.write(R3, LOAD)
    assert two.others(R3) == LOAD
    assert two.others(R2) == LOAD


def test_a_worker_that_slept_finds_its_rows_anew(host: Host) -> None:
    settings = host.settings(replicas_max=1)
    one, two = host.open(settings=settings), host.open(settings=settings)
    one.write(R1, LOAD)
    two.beat(200.0)
    two.write(R2, LOAD)
    beat_all(one, two, now=200.0)
    one.write(R1, LOAD)
    assert two.others(R2) == HostLoad()
    assert one.others(R2) == LOAD


def test_rows_from_before_the_host_restarted_go_to_new_replicas(host: Host) -> None:
    settings = host.settings(replicas_max=2)
    before = host.open(now=90_000.0, settings=settings)
    before.write(R1, LOAD)
    host.close(before)
    one, two = host.open(now=10.0, settings=settings), host.open(now=10.0, settings=settings)
    beat_all(one, two, now=10.0)
    one.write(R2, LOAD)
    one.write(R3, LOAD)
    assert (two.others(R2), two.others(R3)) == (LOAD, LOAD)


def test_a_row_that_another_worker_is_adding_is_asked_for_again(host: Host) -> None:
    one, two = host.open(), host.open()
    beat_all(one, two)
    assert two._file.try_lock()
    one.write(R1, LOAD)
    assert one.others(R1) is None
    two._file.unlock()
    one.write(R1, LOAD)
    assert two.others(R1) == LOAD
    assert one.missing == 0


def test_damaged_slots_are_counted_and_not_used(host: Host) -> None:
    one, two = host.open(), host.open()
    beat_all(one, two)
    for wrong in (float("nan"), float("inf"), -1e6):
        for field in vars(HostLoad()):
            values = {"in_flight": 1.0, field: wrong}
            two.write(R1, HostLoad(**values))
            load = one.others(R1)
            for number in (getattr(load, name) for name in vars(HostLoad()) if load):
                assert 0 <= number < 1e15
    assert one.damaged > 10


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(10**6)])
def test_a_file_that_is_no_table_is_replaced(host: Host, content: bytes) -> None:
    host.folder.mkdir()
    (host.folder / "loads").write_bytes(content)
    one, two = host.open(), host.open()
    beat_all(one, two)
    one.write(R1, LOAD)
    assert two.others(R1) == LOAD


def test_a_file_of_another_version_is_replaced_and_its_users_are_another_host(host: Host) -> None:
    one = host.open()
    with (host.folder / "loads").open("r+b") as file:
        file.write(b"penload0")
    two = host.open()
    assert one.host != two.host
    assert worker_identity(one).sender != worker_identity(two).sender
    beat_all(one, two)
    one.write(R1, LOAD)
    assert two.others(R1) is None


def test_a_table_of_another_size_is_replaced(host: Host) -> None:
    host.close(host.open(settings=host.settings(replicas_max=16)))
    assert host.open().others(R1) is None
    assert (host.folder / "loads").stat().st_size == Form(8, 4).size_bytes


def test_any_content_of_a_well_formed_file_is_at_worst_a_wrong_number(host: Host) -> None:
    host.close(host.open())
    path = host.folder / "loads"
    header = path.read_bytes()[:64]
    path.write_bytes(header + os.urandom(Form(8, 4).size_bytes - 64))
    one, two = host.open(), host.open()
    for now in (100.0, 200.0):
        beat_all(one, two, now=now)
        for replica in (R1, R2, R3):
            one.write(replica, LOAD)
            one.others(replica)
            two.others(replica)
        one.keep_only([R1])


def test_the_space_is_taken_from_the_disk_and_only_the_owner_may_read_it(host: Host) -> None:
    host.open()
    stat = (host.folder / "loads").stat()
    assert stat.st_blocks * 512 >= stat.st_size
    assert stat.st_mode & 0o777 == 0o600
    assert host.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_had_means_no_table(host: Host) -> None:
    host.folder.write_text("not a folder")
    assert open_table(host.settings(), 100.0) is None


def test_without_signals_there_is_no_table(host: Host) -> None:
    assert open_table(SignalsSettings(folder=str(host.folder), transport="off"), 100.0) is None
    assert not host.folder.exists()


def test_each_owner_of_a_column_is_a_new_generation(host: Host) -> None:
    generations = []
    for _ in range(3):
        host.close(host.open())
        data = (host.folder / "loads").read_bytes()
        generations.append(struct.unpack_from("d", data, Form(8, 4).columns_at * 8 + 8)[0])
    assert generations == [1.0, 2.0, 3.0]


def test_what_a_worker_has_while_it_is_alone_is_seen_from_its_next_beat_on(host: Host) -> None:
    one = host.open()
    one.write(R1, LOAD)
    two = host.open()
    one.beat(100.1)
    assert two.others(R1) == LOAD
    one.write(R1, HostLoad())
    assert two.others(R1) == HostLoad(), "and at once while others live"


def test_a_replica_that_is_gone_is_not_written_by_the_next_beat(host: Host) -> None:
    one = host.open()
    one.write(R1, LOAD)
    one.keep_only(())
    two = host.open()
    one.beat(100.1)
    assert two.others(R1) == HostLoad()
