"""A journal whose process is out of descriptors, or was killed at a bad moment."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.metering.journal_files import SMALL, TINY, ask, lay_out, one_attempt, picked

from penstock.clock import new_id
from penstock.errors import JournalFull
from penstock.metering import Journal, Metering
from penstock.metering.journal_reader import JournalReader
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_rows_survive_a_read_that_finds_no_descriptor(tmp_path: Path) -> None:
    """At the end of a file its folder is looked through, which takes a descriptor."""
    both = [*one_attempt(0), *one_attempt(1)]
    reader = JournalReader(lay_out(tmp_path, b"".join(both)))
    assert len(reader.read(1)) == 1
    for _ in range(3):
        with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
            reader.read(1000)
    assert len(reader.read(1000)) == 1
    reader.close()


def test_journal_without_descriptors_refuses_and_keeps_its_slots(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), TINY)
    metering = Metering(journal, ManualClock())
    room = TINY.segment_bytes // 200
    with no_descriptors():
        for _ in range(2 * room):
            try:
                metering.open(ask(), picked(), ()).settle(None)
            except JournalFull:
                break
        with pytest.raises(JournalFull):
            metering.open(ask(), picked(), ())
    assert [metering.open(ask(), picked(), ()) for _ in range(TINY.open_max)]
    journal.leave()


def test_orphan_without_its_slots_is_read_to_the_end(tmp_path: Path) -> None:
    orphan = lay_out(tmp_path, one_attempt(0)[0])
    (orphan / "slots").unlink()
    reader = JournalReader(orphan)
    assert not reader.read(1000)
    assert len(reader.left_open()) == 1
    reader.close()


def test_usage_that_comes_after_the_end_does_not_reach_anothers_slot(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), SMALL)
    metering = Metering(journal, ManualClock())
    ended = metering.open(ask(), picked(), ())
    ended.settle(Usage(1, 1))
    following = metering.open(ask(), picked(), ())
    ended.note(b'{"prompt_tokens":9,"completion_tokens":9}')
    reader = JournalReader(journal.folder)
    assert len(reader.read(10)) == 1
    (left,) = reader.left_open()
    assert b"\t9\t" not in left
    following.settle(None)
    reader.close()
    journal.remove()
