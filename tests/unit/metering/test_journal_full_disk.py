"""A full disk refuses what has not begun, and never loses the end of what has."""

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.metering.journal_files import SMALL, read_all

from penstock.clock import new_id
from penstock.errors import JournalFull
from penstock.metering import Journal

CLOSE = b"c" * 200 + b"\n"


@contextmanager
def full_disk(file_bytes_max: int) -> Iterator[None]:
    """No file of this process may grow beyond a limit: to the journal that is a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1000, 64 * 512 - 1, 64 * 512, 2**16 - 1])
def test_start_that_fails_gives_back_what_it_took(tmp_path: Path, room: int) -> None:
    with full_disk(room), pytest.raises(OSError, match="too large"):
        Journal(tmp_path, new_id(), SMALL)
    assert list(tmp_path.iterdir()) == []


def begin(journal: Journal) -> int | None:
    slot = journal.slots.take()
    try:
        journal.open(slot, b"o" * 500 + b"\t")
    except JournalFull:
        journal.slots.free(slot)
        return None
    return slot


def end(journal: Journal, slot: int) -> None:
    journal.close(slot, CLOSE)
    journal.slots.free(slot)


def test_what_has_begun_can_end_and_more_begins_when_there_is_room_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, new_id(), SMALL)
    closed = 0
    with full_disk(1000), caplog.at_level(logging.ERROR):
        slots: list[int] = []
        while (slot := begin(journal)) is not None:
            slots.append(slot)
            if len(slots) > 50:
                end(journal, slots.pop(0))
                closed += 1
        assert journal.refused == 1
        assert begin(journal) is None
        for slot in slots:
            end(journal, slot)
            closed += 1
        assert closed > 50
    assert {record.getMessage() for record in caplog.records} == {"no room for the journal"}
    slot = begin(journal)
    assert slot is not None
    end(journal, slot)
    journal.leave()
    rows, left = read_all(journal.folder)
    assert (len(rows), left) == (closed + 1, [])
