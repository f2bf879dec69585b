"""Bytes that are written after they were made are bytes like any other, once they are whole."""

import pytest

from penstock.ingress.unfilled import Unfilled


def test_parts_and_reads_come_one_behind_the_other() -> None:
    unfilled = Unfilled(11)
    unfilled.put(b"hello")
    rest = unfilled.rest()
    assert len(rest) == 6
    rest[:2] = b" w"
    unfilled.filled += 2
    unfilled.rest()[:] = b"orld"
    unfilled.filled += 4
    whole = unfilled.take()
    assert type(whole) is bytes
    assert whole == b"hello world"
    assert {whole: 1}[b"hello world"] == 1


def test_nobody_has_them_before_they_are_whole() -> None:
    unfilled = Unfilled(100_000)
    unfilled.put(b"x" * 99_999)
    with pytest.raises(ValueError, match="not filled"):
        unfilled.take()


def test_nothing_is_written_once_they_are_taken() -> None:
    unfilled = Unfilled(2)
    unfilled.put(b"ab")
    unfilled.take()
    with pytest.raises(ValueError, match="released"):
        unfilled.put(b"c")
    with pytest.raises(ValueError, match="released"):
        unfilled.rest()


def test_more_than_was_announced_does_not_fit() -> None:
    unfilled = Unfilled(4)
    unfilled.put(b"abc")
    with pytest.raises(ValueError, match="different structures"):
        unfilled.put(b"de")


def test_each_is_its_own() -> None:
    first, second = Unfilled(3), Unfilled(3)
    first.put(b"abc")
    second.put(b"xyz")
    assert (first.take(), second.take()) == (b"abc", b"xyz")


def test_there_may_be_no_room() -> None:
    with pytest.raises(MemoryError):
        Unfilled(2**60)
