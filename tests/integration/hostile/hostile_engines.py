"""Engines that misbehave: what the scripted engine is told to do wrong.

None of these ends the engine's process; what kills one is tested elsewhere.
"""

import base64
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.integration.hostile.hostile_raw_answers import RAW_ANSWERS

_FLAGS = ("garbage", "garbage_json", "cut_before_head", "no_done", "no_usage", "glue")
_AFTER = ("cut_after", "close_after", "error_after", "garbage_sse_after")
_STATUSES = (
    200, 201, 301, 400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 599,
)  # fmt: skip
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details")
_LIES: list[Any] = [
    None, -1, 0, 10**18, 10**30, 1.5, "x", [], {}, {"cached_tokens": -5}, {"cached_tokens": "x"},
]  # fmt: skip

_counts = st.integers(0, 6)
_seconds = st.sampled_from([0.3, 30])
_sizes = st.sampled_from([1000, 60_000, 70_000, 300_000])
_statuses = st.sampled_from(_STATUSES)
_raw = st.sampled_from(RAW_ANSWERS).map(lambda raw: {"raw": base64.b64encode(raw).decode()})

scripts: SearchStrategy[dict[str, Any]] = st.one_of(
    _raw,
    _raw,
    _raw,
    st.sampled_from(_FLAGS).map(lambda name: {name: True}),
    st.tuples(st.sampled_from(_AFTER), _counts).map(lambda at: {at[0]: at[1], "tokens": 5}),
    _counts.map(lambda count: {"stall_after": [count, None], "tokens": 5}),
    _seconds.map(lambda seconds: {"stall_before_head": seconds}),
    _seconds.map(lambda seconds: {"stall_before_first": seconds}),
    _sizes.map(lambda size: {"huge_line": size}),
    st.integers(1, 40).map(lambda size: {"split": size, "split_pause": 0, "tokens": 3}),
    st.tuples(_statuses, st.text(max_size=9)).map(lambda at: {"status": at[0], "message": at[1]}),
    st.dictionaries(st.sampled_from(_COUNTS), st.sampled_from(_LIES), min_size=1).map(
        lambda lie: {"lie_usage": lie, "tokens": 3}
    ),
)
