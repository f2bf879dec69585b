"""Only what the cell's own key sealed is opened, and nothing that anybody sends raises."""

import hashlib
import math
import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.signal import EngineClaim, LoadClaim, SentPrompt, Signal, SignalBatch
from penstock.signals.counts import Drop
from penstock.signals.envelope import Envelope

KEY = b"k" * 32
ENVELOPE = Envelope(KEY, 65536)

words = st.integers(0, 2**64 - 1)
counts = st.integers(0, 2**40)
ages = st.floats(0, 1e6)
names = st.text(min_size=1, max_size=20)
prompts = st.builds(
    lambda session, replica, parts: SentPrompt(
        session, replica, 0, [link for link, _ in parts], [tokens for _, tokens in parts]
    ),
    words,
    names,
    st.lists(st.tuples(words, counts), max_size=5),
)
signals = st.builds(
    Signal,
    sender=words,
    number=words,
    host=names,
    loads=st.lists(
        st.builds(LoadClaim, names, counts, counts, ages, ages, counts, counts, counts), max_size=3
    ),
    batches=st.lists(st.builds(SignalBatch, words, st.lists(prompts, max_size=3)), max_size=3),
    engines=st.lists(st.builds(EngineClaim, names, st.booleans()), max_size=3),
    is_last=st.booleans(),
)


def sealed(body: bytes) -> bytes:
    """What a peer with the right key can send."""
    return (
        hashlib.blake2b(body, key=KEY, digest_size=16, person=b"penstock signal1").digest() + body
    )


@given(signals)
def test_what_is_sealed_is_opened_as_it_was(signal: Signal) -> None:
    assert ENVELOPE.open(ENVELOPE.seal(signal)) == signal


@given(st.binary(max_size=300))
def test_random_bytes_are_forgeries(data: bytes) -> None:
    assert ENVELOPE.open(data) is Drop.FORGED


@given(st.binary(max_size=300))
def test_random_bytes_under_the_right_key_are_dropped_or_a_signal(body: bytes) -> None:
    opened = ENVELOPE.open(sealed(body))
    assert isinstance(opened, Signal) or opened is Drop.MALFORMED


@given(signals, st.data())
def test_a_truncated_or_changed_message_is_a_forgery(signal: Signal, data: st.DataObject) -> None:
    whole = ENVELOPE.seal(signal)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert ENVELOPE.open(whole[:cut]) is Drop.FORGED
    changed = bytearray(whole)
    changed[cut] ^= data.draw(st.integers(1, 255))
    assert ENVELOPE.open(bytes(changed)) is Drop.FORGED


@given(signals)
def test_another_cells_message_is_a_forgery(signal: Signal) -> None:
    assert ENVELOPE.open(Envelope(b"x" * 32, 65536).seal(signal)) is Drop.FORGED


def test_a_message_over_the_limit_is_not_even_hashed() -> None:
    small = Envelope(KEY, 4096)
    assert small.open(sealed(bytes(5000))) is Drop.TOO_LARGE


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0, 2e6])
def test_a_number_that_is_no_age_is_dropped(number: float) -> None:
    claim = ["r", 1, 1, number, 0.0, 1, 1, 1]
    body = msgspec.msgpack.encode([1, 1, "host", [claim], [], [], False])
    assert ENVELOPE.open(sealed(body)) is Drop.MALFORMED


def test_links_without_their_tokens_are_dropped() -> None:
    body = msgspec.msgpack.encode([1, 1, "host", [], [[1, [[1, "r", 0, [1, 2, 3], [5]]]]]])
    assert ENVELOPE.open(sealed(body)) is Drop.MALFORMED


def test_a_list_that_claims_to_be_huge_takes_no_memory() -> None:
    huge = b"\xdd" + struct.pack(">I", 2**32 - 1)
    tracemalloc.start()
    try:
        for body in (
            huge,
            b"\x97\x01\x01\xa1h" + huge,
            b"\x97\x01\x01\xa1h\x90\x91\x92\x01" + huge,
            b"\x91" * 60_000,
        ):
            assert ENVELOPE.open(sealed(body)) is Drop.MALFORMED
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_the_fullest_message_that_is_allowed_stays_small_in_memory() -> None:
    prompt = msgspec.msgpack.encode([0, "r", 0, [], []])
    body = (
        b"\x97\x01\x01\xa1h\x90\x91\x92\x01\xdd"
        + struct.pack(">I", 9_000)
        + prompt * 9_000
        + b"\x90\xc2"
    )
    assert len(body) < 65536 - 16
    tracemalloc.start()
    try:
        assert isinstance(ENVELOPE.open(sealed(body)), Signal)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()
