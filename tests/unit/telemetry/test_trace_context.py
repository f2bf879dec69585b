"""A caller's `traceparent` is taken over if it is exactly one, else ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.telemetry.callers_trace import GOOD, SPAN, TRACE

from penstock.telemetry.trace_context import read_traceparent


def read(*values: bytes) -> tuple[str, str] | None:
    headers = [(b"host", b"x"), *((b"traceparent", value) for value in values)]
    return read_traceparent(headers)


@pytest.mark.parametrize(
    "value",
    [GOOD, GOOD[:-2] + b"00", b"cc" + GOOD[2:], b"cc" + GOOD[2:] + b"-what-the-future-will-be"],
)
def test_a_callers_trace_and_span_are_read(value: bytes) -> None:
    assert read(value) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        GOOD[:-1],
        GOOD + b"0",
        GOOD + b"-more",
        GOOD + b"\n",
        b" " + GOOD[1:],
        b"ff" + GOOD[2:],
        GOOD.upper(),
        GOOD.replace(b"-", b"_"),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}-{SPAN}-0x".encode(),
        f"00-{TRACE[:-1]}g-{SPAN}-01".encode(),
        f"cc-{TRACE}-{SPAN}-01.more".encode(),
        f"cc-{TRACE}-{SPAN}-01-{'x' * 300}".encode(),
        b"\xd9\xa0-" + GOOD[3:],
    ],
)
def test_what_is_not_exactly_one_is_ignored(value: bytes) -> None:
    assert read(value) is None


def test_several_are_ignored() -> None:
    assert read(GOOD, GOOD) is None
    assert read() is None


@given(st.binary(max_size=80))
def test_no_bytes_make_it_fail(value: bytes) -> None:
    read(value)
