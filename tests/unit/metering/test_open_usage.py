"""The last usage of an open attempt: whole after a kill, the newest or the one before."""

import mmap
import os
import random
import signal
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import JournalFull
from penstock.metering.usage_slots import SLOT_BYTES, USAGE_BYTES_MAX, UsageSlots

COUNTS = struct.Struct("<QQ")


def usage(number: int) -> bytes:
    """Of a length and in letters that belong to its number, so that a mixture is found out."""
    return (b"%d/" % number) * (1 + number % 25)


def test_slot_holds_what_was_noted_last(tmp_path: Path) -> None:
    slots = UsageSlots.make(tmp_path / "slots", 2)
    first, second = slots.take(), slots.take()
    assert slots.last(first) is None
    for number in range(300):
        slots.note(first, usage(number))
        assert slots.last(first) == usage(number)
    assert slots.last(second) is None
    slots.close()
    left = UsageSlots.read(tmp_path / "slots")
    assert left.last(first) == usage(299)
    left.close()


def test_slot_that_is_taken_again_has_forgotten_its_last_owner(tmp_path: Path) -> None:
    slots = UsageSlots.make(tmp_path / "slots", 1)
    slots.note(slots.take(), b"mine")
    slots.free(0)
    assert slots.last(slots.take()) is None
    with pytest.raises(JournalFull):
        slots.take()
    slots.close()


@given(st.lists(st.integers(min_value=0, max_value=7), max_size=60))
def test_slots_are_each_taken_by_one_and_those_freed_last_first(steps: list[int]) -> None:
    slots = UsageSlots(mmap.mmap(-1, 5 * SLOT_BYTES))
    # What a list of all slots from the start would give.
    free = [4, 3, 2, 1, 0]
    taken: list[int] = []
    for step in steps:
        if step < len(taken):
            slots.free(slot := taken.pop(step))
            free.append(slot)
        elif free:
            assert slots.take() == free[-1]
            taken.append(free.pop())
        else:
            with pytest.raises(JournalFull):
                slots.take()
    slots.close()


@given(st.lists(st.binary(max_size=USAGE_BYTES_MAX), min_size=1, max_size=5))
def test_any_bytes_up_to_the_bound_are_kept_and_neighbours_are_untouched(
    noted: list[bytes],
) -> None:
    slots = UsageSlots(mmap.mmap(-1, 3 * SLOT_BYTES))
    for slot in (slots.take(), slots.take(), slots.take()):
        slots.note(slot, b"%d" % slot)
    for each in noted:
        slots.note(1, each)
        assert slots.last(1) == each
    slots.note(1, b"x" * (USAGE_BYTES_MAX + 1))
    assert slots.last(1) == noted[-1], "what is too long is not kept, and spoils nothing"
    assert (slots.last(0), slots.last(2)) == (b"0", b"2")
    slots.close()


def test_kill_in_a_loop_of_notes_leaves_a_whole_usage(tmp_path: Path) -> None:
    """The child says before and after each note which one it is at; the kill comes anywhere."""
    chosen = random.Random(1)
    noted = 0
    for attempt in range(60):
        path = tmp_path / str(attempt)
        slots = UsageSlots.make(path, 1)
        progress = mmap.mmap(-1, COUNTS.size)
        slot = slots.take()
        child = os.fork()
        if not child:
            _note_for_ever(slots, slot, progress)
        time.sleep(chosen.uniform(0.001, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        begun, done = COUNTS.unpack(progress[:])
        left = UsageSlots.read(path)
        last = left.last(slot)
        if last is None:
            assert done == 0
        else:
            assert last in {usage(begun), usage(done)}, (begun, done)
            noted += done
        for file in (left, slots, progress):
            file.close()
    assert noted > 1000, "the kills came before anything was noted"


def _note_for_ever(slots: UsageSlots, slot: int, progress: mmap.mmap) -> None:
    number = 0
    try:
        while True:
            number += 1
            progress[:8] = number.to_bytes(8, "little")
            slots.note(slot, usage(number))
            progress[8:] = number.to_bytes(8, "little")
    finally:
        os._exit(1)
