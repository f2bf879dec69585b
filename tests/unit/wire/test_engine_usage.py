"""What an engine says that it counted is read strictly: nonsense is unknown, never 0."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metering.usage_slots import USAGE_BYTES_MAX
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage, write_usage

COUNTS = st.integers(0, 2**31)


@given(COUNTS, COUNTS, st.none() | COUNTS, st.booleans())
def test_what_is_written_is_read_back_and_fits_a_slot(
    prompt: int, output: int, cached: int | None, is_estimated: bool
) -> None:
    written = write_usage(Usage(prompt, output, cached, is_estimated=is_estimated))
    # Uncached and cached are the prompt: an engine that claims more has cached all of it.
    part = None if cached is None else min(cached, prompt)
    assert read_usage(written) == Usage(prompt, output, part, is_estimated=is_estimated)
    assert len(written) <= USAGE_BYTES_MAX


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"5", b"[]", b'"x"', b"{", b'{"prompt_tokens":-1}',
        b'{"prompt_tokens":1.5}', b'{"prompt_tokens":"3"}', b'{"prompt_tokens":true}',
        b'{"prompt_tokens":null}', b'{"completion_tokens":2147483649}',
        b'{"prompt_tokens":9007199254740992}', b'{"prompt_tokens":1e3}',
        b'{"prompt_tokens":%s}' % (b"9" * 400),
        b'{"prompt_tokens_details":{"cached_tokens":-1}}', b'{"prompt_tokens_details":[]}',
        b"[" * 5000, b'{"a":' * 5000, b"\xff", b'{"prompt_tokens":3} {}',
    ],
)  # fmt: skip
def test_nonsense_is_not_a_usage(raw: bytes) -> None:
    assert read_usage(raw) is None


def test_what_is_beside_the_counts_is_left_out() -> None:
    raw = b'{"prompt_tokens":3,"total_tokens":9,"completion_tokens":2,"x":{"y":[1]}}'
    assert read_usage(raw) == Usage(3, 2)
    details = b'{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":%s}'
    assert read_usage(details % b"null") == Usage(3, 2)
    assert read_usage(details % b"{}") == Usage(3, 2)
    assert read_usage(details % b'{"cached_tokens":null}') == Usage(3, 2)
    assert read_usage(details % b'{"cached_tokens":0,"audio":1}') == Usage(3, 2, 0)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "prompt_tokens_details",
                         "cached_tokens", "x"]), inner, max_size=4,
    ),
))  # fmt: skip
def test_whatever_json_comes_counts_are_sane_or_unknown(value: object) -> None:
    try:
        raw = msgspec.json.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return
    usage = read_usage(raw)
    if usage is not None:
        counts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens or 0)
        assert all(0 <= count <= 2**31 for count in counts)
