"""A reader's place in the log: nothing twice, nothing left out, nothing without bound."""

from penstock.events.event import Event
from penstock.events.feed import Reader
from penstock.records.account import AccountId

ACCOUNT = AccountId("a")


def event(sequence: int) -> Event:
    return Event("id", ACCOUNT, "job.succeeded", 0.0, {}, sequence)


def test_a_new_reader_begins_with_what_is_new() -> None:
    reader = Reader(ACCOUNT, None, 10)
    reader.join(5, 9)
    reader.put(event(6))
    assert reader.position == 5
    assert [each.sequence for each in reader.take()] == [6]
    assert reader.take() == []


def test_a_reader_ahead_of_the_shared_look_gets_nothing_twice() -> None:
    reader = Reader(ACCOUNT, 7, 10)
    reader.join(5, 9)
    for sequence in (6, 7, 8):
        reader.put(event(sequence))
    assert [each.sequence for each in reader.take()] == [8]


def test_a_place_beyond_the_end_is_the_end() -> None:
    reader = Reader(ACCOUNT, 10**17, 10)
    reader.join(5, 9)
    assert reader.position == 9


async def test_a_reader_too_far_behind_is_cut_and_keeps_what_it_has() -> None:
    reader = Reader(ACCOUNT, None, 2)
    reader.join(0, 0)
    for sequence in (1, 2, 3, 4):
        reader.put(event(sequence))
    assert reader.is_cut
    assert await reader.wait(0)
    assert [each.sequence for each in reader.take()] == [1, 2]
    assert not await reader.wait(0)
