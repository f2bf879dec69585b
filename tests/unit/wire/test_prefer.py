"""`Prefer` of RFC 7240: what is read, and what is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http.prefer import Preference, read_prefer


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        (b"respond-async", None),
        (b"Respond-Async", None),
        (b"respond-async, wait=10", 10),
        (b"wait=10, respond-async", 10),
        (b"respond-async; foo=1, wait = 7", 7),
        (b'respond-async, wait="3"', 3),
        (b"respond-async, wait=soon", None),
        (b"respond-async, wait=-1", None),
        (b"respond-async, wait=1, wait=9", 1),
        (b'foo="a, wait=4", respond-async', None),
        (b"respond-async, wait=99999999999999999999", None),
    ],
)
def test_respond_async_and_its_wait_are_read(header: bytes, wait: int | None) -> None:
    assert read_prefer(header) == Preference(wait)


@pytest.mark.parametrize(
    "header", [b"", b"wait=10", b"return=minimal", b'foo="respond-async"', b"respond-asynchronous"]
)
def test_what_does_not_prefer_it_is_wanted_now(header: bytes) -> None:
    assert read_prefer(header) is None


@given(st.binary(max_size=80))
def test_no_header_is_a_failure(header: bytes) -> None:
    found = read_prefer(header)
    assert found is None or found.wait_seconds is None or found.wait_seconds >= 0


def test_applied_names_what_was_honoured() -> None:
    assert Preference().applied_later == "respond-async"
    assert Preference(5).applied_later == "respond-async, wait=5"
