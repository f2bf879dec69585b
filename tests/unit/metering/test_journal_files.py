"""One worker's files: in order, within their bounds, and always with room for an end."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.metering.journal_files import SMALL, TINY, read_all

from penstock.clock import new_id
from penstock.errors import JournalFull
from penstock.metering import Journal, MeteringSettings
from penstock.metering.journal import (
    FORMAT,
    holder_of,
    is_journal,
    is_newer_journal,
    take_lock,
)
from penstock.metering.journal_format import CLOSE_BYTES_MAX, HEADER_BYTES
from penstock.metering.journal_reader import JournalReader

CLOSE = b"c" * (CLOSE_BYTES_MAX - HEADER_BYTES - 1) + b"\n"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.journal"))


class Book:
    """A journal with its reader, and what they should hold."""

    def __init__(self, folder: Path, chosen: MeteringSettings) -> None:
        self.journal = Journal(folder, new_id(), chosen)
        self.reader = JournalReader(self.journal.folder)
        self.open: dict[int, bytes] = {}
        self.closed: list[bytes] = []
        self.read: list[bytes] = []
        self.settings = chosen

    def begin(self, size: int) -> int:
        slot = self.journal.slots.take()
        text = b"%d:" % len(self.closed) + b"o" * size
        try:
            self.journal.open(slot, text)
        except JournalFull:
            self.journal.slots.free(slot)
            raise
        self.open[slot] = text
        return slot

    def end(self, slot: int) -> None:
        self.journal.close(slot, CLOSE)
        self.journal.slots.free(slot)
        self.closed.append(self.open.pop(slot) + CLOSE)

    def fill(self) -> None:
        try:
            while True:
                self.end(self.begin(100))
        except JournalFull:
            return

    def drain(self, rows_max: int = 3) -> None:
        while rows := self.reader.read(rows_max):
            self.read += rows.attempts
            self.reader.done()
        self.reader.done()
        assert self.read == self.closed
        assert self.journal.bytes_held() <= self.settings.journal_bytes_max

    def leave(self) -> None:
        self.reader.close()
        self.journal.leave()


STEPS = st.lists(
    st.tuples(st.sampled_from(["open", "open", "close", "drain"]), st.integers(0, 1900)),
    max_size=150,
)


@settings(max_examples=150)
@given(STEPS, st.integers(2, 5))
def test_end_always_finds_room_whatever_was_begun_before(
    steps: list[tuple[str, int]], segments: int
) -> None:
    with TemporaryDirectory(prefix="penstock-test-") as folder:
        chosen = MeteringSettings(segment_bytes=4096, journal_bytes_max=segments * 4096, open_max=8)
        book = Book(Path(folder), chosen)
        for step, size in steps:
            if step == "open":
                try:
                    book.begin(size)
                except JournalFull:
                    assert (
                        book.journal.bytes_held() == chosen.journal_bytes_max or len(book.open) == 8
                    )
            elif step == "close" and book.open:
                book.end(sorted(book.open)[size % len(book.open)])
            elif step == "drain":
                book.drain()
            assert book.journal.bytes_held() <= chosen.journal_bytes_max
        for slot in list(book.open):
            book.end(slot)
        book.drain()
        # Emptied, it takes new ones again.
        book.end(book.begin(1900))
        book.drain()
        book.leave()


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_record_that_ends_with_its_file_is_read_and_the_next_begins_another(
    tmp_path: Path, over: int
) -> None:
    book = Book(tmp_path, TINY)
    # Two records fill the file to its last byte, but for `over`.
    size = (4096 - 2 * len(CLOSE) - 4 * HEADER_BYTES) // 2 - 2
    left = 4096 - 2 * (size + 2 + len(CLOSE) + 2 * HEADER_BYTES)
    book.end(book.begin(size))
    book.journal.make_spare()
    book.end(book.begin(size + left + over))
    assert book.journal.is_past_half == (over <= 0)
    book.drain()
    book.end(book.begin(10))
    book.drain()
    assert names_in(book.journal.folder) == ["00000002.journal"]
    book.leave()


def test_file_with_an_open_attempt_stays_until_that_is_closed(tmp_path: Path) -> None:
    book = Book(tmp_path, TINY)
    long = book.begin(100)
    for _ in range(100):
        book.end(book.begin(500))
        book.drain()
        # The file it began in, the one written now, and perhaps the one made for later.
        assert "00000001.journal" in names_in(book.journal.folder)
        assert len(names_in(book.journal.folder)) <= 3
    assert read_all(book.journal.folder)[1]
    book.end(long)
    book.drain()
    assert "00000001.journal" not in names_in(book.journal.folder)
    book.leave()


def test_replay_of_what_a_long_attempt_left_behind_holds_that_attempt(tmp_path: Path) -> None:
    """Files between were deleted: every row that is not in Postgres yet must still come out."""
    book = Book(tmp_path, TINY)
    long = book.begin(100)
    for _ in range(50):
        book.end(book.begin(500))
        book.drain()
    fresh = book.begin(77)
    book.end(fresh)
    begun = book.open[long]
    rows, left = read_all(book.journal.folder)
    assert book.closed[-1] in rows
    assert [row for row in left if row.startswith(begun)]
    book.end(long)
    rows, _ = read_all(book.journal.folder)
    assert book.closed[-1] in rows
    book.leave()


def test_full_journal_refuses_what_has_not_begun_and_takes_it_after_a_drain(
    tmp_path: Path,
) -> None:
    book = Book(tmp_path, TINY)
    slots = [book.begin(100) for _ in range(4)]
    book.fill()
    assert book.journal.bytes_held() == TINY.journal_bytes_max
    refused = book.journal.refused
    assert refused == 1
    with pytest.raises(JournalFull):
        book.begin(1)
    assert book.journal.refused == 2
    for slot in slots:
        book.end(slot)
    book.drain()
    book.end(book.begin(100))
    book.drain()
    book.leave()


def test_journal_without_a_free_slot_refuses_and_takes_again_when_one_is_free(
    tmp_path: Path,
) -> None:
    book = Book(tmp_path, TINY)
    slots = [book.begin(1) for _ in range(TINY.open_max)]
    with pytest.raises(JournalFull):
        book.begin(1)
    book.end(slots[3])
    assert book.begin(1) == slots[3]
    book.leave()


def test_longest_end_fits_and_a_longer_one_is_our_mistake(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), TINY)
    journal.open(0, b"o")
    with pytest.raises(AssertionError):
        journal.close(0, CLOSE + b"x")
    journal.close(0, CLOSE)
    journal.remove()


def test_settings_that_leave_no_room_for_ends_are_refused() -> None:
    with pytest.raises(ValueError, match="open_max"):
        MeteringSettings(segment_bytes=2**16, journal_bytes_max=2**20, open_max=129)
    with pytest.raises(ValueError, match="two segments"):
        MeteringSettings(segment_bytes=2**16, journal_bytes_max=2**17 - 1, open_max=128)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"segment_bytes": 4096}, MeteringSettings)
    MeteringSettings()


def test_removed_journal_leaves_nothing_and_a_left_one_everything(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), SMALL)
    journal.make_spare()
    journal.make_spare()
    assert len(names_in(journal.folder)) == 2
    journal.remove()
    assert list(tmp_path.iterdir()) == []
    other = Journal(tmp_path, new_id(), SMALL)
    other.make_spare()
    other.leave()
    assert is_journal(other.folder)
    lock = take_lock(other.folder)
    assert lock is not None, "whoever comes next may have it"


def test_journal_of_a_later_release_is_told_apart(tmp_path: Path) -> None:
    made = Journal(tmp_path, new_id(), SMALL)
    assert (holder_of(made.folder), is_newer_journal(made.folder)) == (made.holder, False)
    made.remove()
    for name, is_ours in ((new_id(), True), (f"{new_id()}.{FORMAT}", True)):
        (tmp_path / name).mkdir()
        assert is_journal(tmp_path / name) is is_ours
    (newer := tmp_path / f"{new_id()}.{FORMAT + 1}").mkdir()
    assert not is_journal(newer)
    assert is_newer_journal(newer)


def test_journal_of_a_living_worker_is_nobody_elses(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), SMALL)
    assert take_lock(journal.folder) is None
    with pytest.raises(JournalFull, match="lives"):
        Journal(tmp_path, journal.holder, SMALL)
    journal.remove()


@pytest.mark.parametrize(
    "name", ["lost+found", "postgres", "0" * 32, "run", "0190a1b2-c3d4-7e5f-8a6b-0123456789abx"]
)
def test_other_folders_beside_the_journals_are_not_taken_for_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert not is_journal(tmp_path / name)
    assert not is_journal(tmp_path / new_id())
    (tmp_path / (file := new_id())).touch()
    assert not is_journal(tmp_path / file)


def test_what_is_written_leaves_the_workers_memory_and_stays_in_the_file(tmp_path: Path) -> None:
    book = Book(tmp_path, MeteringSettings())
    try:
        for _ in range(4000):
            book.end(book.begin(1000))
        assert 0 < mapped_bytes(book.journal.folder) < 2 * 2**20
        book.drain(rows_max=10_000)
        assert mapped_bytes(book.journal.folder) < 2 * 2**20
    finally:
        book.leave()


def mapped_bytes(folder: Path) -> int:
    """How much of a journal's files this process has in memory."""
    total, is_journal_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_journal_file = str(folder) in line and line.endswith(".journal")
        elif is_journal_file and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total
