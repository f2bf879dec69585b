"""Ids: UUIDv7 in the form of RFC 9562, unique, and in the order of their milliseconds."""

import time
import uuid

from penstock.clock import new_id, timestamp_of


def test_id_is_a_uuid_of_version_7_and_rfc_variant() -> None:
    for _ in range(1000):
        text = new_id()
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert parsed.version == 7
        assert parsed.variant == uuid.RFC_4122


def test_a_hundred_thousand_ids_are_all_different() -> None:
    assert len({new_id() for _ in range(100_000)}) == 100_000


def test_ids_of_later_milliseconds_sort_after_earlier_ones() -> None:
    ids = [new_id() for _ in range(2000)]
    assert sorted(ids, key=lambda each: each[:13]) == ids
    first = new_id()
    while timestamp_of(new_id()) <= timestamp_of(first):
        pass
    assert new_id() > first


def test_timestamp_is_the_millisecond_at_which_the_id_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = timestamp_of(new_id())
    after = time.time_ns() // 1_000_000
    assert before <= round(made * 1000) <= after


def test_timestamp_of_the_rfcs_own_example() -> None:
    # RFC 9562, appendix A.6: 2022-02-22 19:22:22 UTC.
    assert timestamp_of("017f22e2-79b0-7cc3-98c4-dc0c0c07398f") == 1_645_557_742.0


def test_every_random_bit_is_seen_as_zero_and_as_one() -> None:
    ones, zeros = 0, 0
    for _ in range(500):
        value = uuid.UUID(new_id()).int
        ones |= value
        zeros |= ~value
    random_bits = ((1 << 12) - 1) << 64 | ((1 << 62) - 1)
    assert ones & random_bits == random_bits
    assert zeros & random_bits == random_bits
