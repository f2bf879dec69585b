"""The stream on its way through: whole events, cut to what was asked, counted at every moment."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.output_estimate import OutputEstimate
from penstock.errors import EngineFailed
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage

RECORDED = Path(__file__).with_name("recorded")
CASES = {"one": 1, "stopped": 1, "two": 2, "tools": 1, "quoted": 1}
ASKED = {"plain": (False, False), "usage": (True, False), "continuous": (True, True)}
END = b"\n\n"


def recorded(case: str, asked: str) -> bytes:
    return (RECORDED / f"{case}.{asked}.sse").read_bytes()


def stream(
    asked: str = "plain",
    *,
    choices: int = 1,
    fingerprint: Fingerprint | None = None,
    event_bytes_max: int = 1 << 20,
) -> EventStream:
    wants_usage, wants_continuous = ASKED[asked]
    return EventStream(
        wants_usage=wants_usage,
        wants_continuous_usage=wants_continuous,
        choices=choices,
        fingerprint=fingerprint or Fingerprint(),
        event_bytes_max=event_bytes_max,
        estimate=OutputEstimate(0, 0, 0),
    )


def learned() -> Fingerprint:
    """What a second stream of the same replica starts with."""
    fingerprint = Fingerprint()
    stream(fingerprint=fingerprint).feed(recorded("one", "continuous"))
    return fingerprint


def chunk(content: str, usage: dict[str, object] | None = None, **more: object) -> bytes:
    """One event as vLLM writes it: no white space, non-ASCII as it is."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    body = {"id": "x", "choices": [choice], **({"usage": usage} if usage else {}), **more}
    return b"data: " + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + END


def count(completion: int, **details: object) -> dict[str, object]:
    return {
        "prompt_tokens": 9,
        "total_tokens": 9 + completion,
        "completion_tokens": completion,
        **details,
    }


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("case", CASES)
def test_callers_stream_is_what_the_engine_sends_for_the_callers_own_body(
    case: str, asked: str, is_first: bool
) -> None:
    fingerprint = Fingerprint() if is_first else learned()
    events = stream(asked, choices=CASES[case], fingerprint=fingerprint)
    assert events.feed(recorded(case, "continuous")) == recorded(case, asked)
    assert events.is_done
    assert not events.has_error


@settings(max_examples=60, deadline=None)
@given(
    case=st.sampled_from(sorted(CASES)),
    asked=st.sampled_from(sorted(ASKED)),
    is_first=st.booleans(),
    data=st.data(),
)
def test_any_split_gives_the_same_stream(
    case: str, asked: str, is_first: bool, data: st.DataObject
) -> None:
    whole = recorded(case, "continuous")
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=60))
    fingerprint = Fingerprint() if is_first else learned()
    events = stream(asked, choices=CASES[case], fingerprint=fingerprint)
    pieces = [whole[a:b] for a, b in pairwise(sorted({0, *cuts, len(whole)}))]
    out = [events.feed(piece) for piece in pieces]
    assert b"".join(out) == recorded(case, asked)
    assert all(piece == b"" or piece.endswith(END) for piece in out), "only whole events"


@pytest.mark.parametrize("case", ["two", "tools"])
def test_stream_in_single_bytes_is_the_same(case: str) -> None:
    whole = recorded(case, "continuous")
    events = stream(choices=CASES[case])
    out = b"".join(events.feed(whole[n : n + 1]) for n in range(len(whole)))
    assert out == recorded(case, "plain")


def last_counts(received: bytes) -> Usage | None:
    """What a reader of the whole JSON finds in the events that came: per choice, and in all."""
    by_choice: dict[int, dict[str, int]] = {}
    for event in received.split(END)[:-1]:
        if event == b"data: [DONE]":
            continue
        body = json.loads(event.removeprefix(b"data: "))
        usage = body.get("usage")
        if usage is None:
            continue
        if not body["choices"]:
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached)
        by_choice[body["choices"][0]["index"]] = usage
    if not by_choice:
        return None
    prompt = next(iter(by_choice.values()))["prompt_tokens"]
    return Usage(prompt, sum(usage["completion_tokens"] for usage in by_choice.values()))


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("case", CASES)
def test_usage_is_exact_wherever_the_stream_is_cut(case: str, asked: str) -> None:
    whole = recorded(case, "continuous")
    events = stream(asked, choices=CASES[case])
    at = 0
    for end in [*range(97, len(whole), 97), len(whole)]:
        events.feed(whole[at:end])
        at = end
        assert events.usage() == last_counts(whole[:end])
    assert events.usage() is not None


TRAPS = [
    ',"usage":{"prompt_tokens":1}',
    '"usage":{',
    ',"usage":{}}',
    '"finish_reason":"stop"',
    '"choices":[]',
    '"choices":[{"index":7',
    "data: [DONE]",
    "data: [DONE]\n\n",
    'data: {"error":',
    "\n\n",
    '\\","usage":{"a":1},"x":"',
    ',"system_fingerprint":"x"',
    "}}}]]]",
    '{"a":{"b":{"c":1}}}',
    "\\",
    "é🌊\u2028",
]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("text", TRAPS)
def test_words_of_the_model_are_never_cut(text: str, asked: str) -> None:
    fingerprint = learned()
    for name, content in (("content", text), ("twice", text + text)):
        events = stream(asked, fingerprint=fingerprint)
        kept = events.feed(chunk(content, count(3), extra={name: content}))
        expected = chunk(
            content, count(3) if asked == "continuous" else None, extra={name: content}
        )
        assert kept == expected
        assert events.usage() == Usage(9, 3)
        assert not events.is_done
        assert not events.has_error


@settings(max_examples=60, deadline=None)
@given(
    text=st.lists(st.sampled_from(TRAPS) | st.text(max_size=6), max_size=5).map("".join),
    completion=st.integers(0, 10**6),
)
def test_any_words_go_through_unchanged(text: str, completion: int) -> None:
    events = stream(fingerprint=learned())
    assert events.feed(chunk(text, count(completion))) == chunk(text)
    assert events.usage() == Usage(9, completion)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    "details",
    [
        {"completion_tokens_details": {"reasoning_tokens": 2}},
        {"completion_tokens_details": None},
        {
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        {"completion_tokens_details": {}},
    ],
)
def test_nested_details_are_cut_with_the_usage_they_belong_to(
    asked: str, details: dict[str, object]
) -> None:
    usage = count(5, **details)
    events = stream(asked)
    kept = events.feed(chunk("a", usage, prompt_token_ids=None))
    with_usage = chunk("a", usage, prompt_token_ids=None)
    assert kept == (with_usage if asked == "continuous" else chunk("a", prompt_token_ids=None))
    assert events.usage() == Usage(9, 5, 4 if "prompt_tokens_details" in details else None)


CHOICE = b'{"index":0,"delta":{"content":"a"},"finish_reason":null}'
BEFORE = chunk("a", count(3))
# None of these may be taken for an event that is written like `BEFORE`, though parts of it are.
UNLIKE = [
    BEFORE.replace(b'"index":0', b'"index":0},{"index":1'),
    BEFORE.replace(CHOICE, b""),
    BEFORE.replace(b'"id":"x"', b'"id":"y"'),
    BEFORE.replace(b'"id":"x","choices":', b'"id":"x","was":'),
    BEFORE.replace(b'"finish_reason":null', b'"finish_reason":"stop"'),
    BEFORE.replace(b'"id":"x"', b'"id":"xy"').replace(CHOICE, b""),
    BEFORE.replace(b'"completion_tokens":3}}', b'"completion_tokens":33}'),
    BEFORE.replace(b',"completion_tokens":3}', b'},"completion_token":{}'),
    BEFORE.replace(
        b',"total_tokens":12,"completion_tokens":3', b'},"usage":{"prompt_tokens":99999,"abc":4'
    ),
    BEFORE.replace(b'"prompt_tokens":9,', b'"prompt_token":{},'),
    BEFORE.replace(b'"completion_tokens":3}}', b'"completion_tokens":3},"x":{}}'),
    BEFORE.replace(b'"completion_tokens":3}}', b'"completion_tokens":3}, "a":1}'),
    BEFORE.replace(b'"completion_tokens":3}}', b'"completion_token":33}}'),
    BEFORE.replace(b'"completion_tokens":3}}', b'"completion_tokens":3}'),
    BEFORE.replace(b',"usage":{', b',"usages":'),
    BEFORE.replace(b',"usage":{', b',"usage":{"usage":{') + BEFORE,
    BEFORE.replace(b"\n\n", b"\n\n\n"),
    BEFORE.replace(b"\n\n", b"\r\n\n"),
    BEFORE[:-2] + b',"usage":{}}' + END,
    BEFORE[:40] + BEFORE[-70:],
    BEFORE[-70:],
    chunk("a", count(10)),
    chunk("a", count(10, prompt_tokens_details={"cached_tokens": 8})),
    chunk(',"usage":{"prompt_tokens":1}', count(3)),
    chunk("a"),
    END,
]


def told(asked: str, choices: int, before: bytes, event: bytes) -> object:
    """What becomes of the event behind the other: what the caller gets, and what was counted."""
    events = stream(asked, choices=choices, fingerprint=learned())
    events.feed(before)
    try:
        out = events.feed(event)
    except EngineFailed as failure:
        return str(failure)
    return out, events.usage(), events.latest(), events.is_done, events.has_error


@pytest.mark.parametrize("choices", [1, 2])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("event", UNLIKE)
def test_event_is_read_for_itself_whatever_came_before_it(
    event: bytes, asked: str, choices: int
) -> None:
    # Behind the other one nothing is known of how events are written.
    plain = chunk("a", count(3)).replace(b'"choices":[', b'"choices": [')
    assert told(asked, choices, BEFORE, event) == told(asked, choices, plain, event)


MARKS = [b"{", b"}", b'"', b",", b"\n", b"]", b'"choices":[', b',"usage":{', b'"finish_reason":"']


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(BEFORE)),
    removed=st.integers(0, 12),
    added=st.lists(st.sampled_from(MARKS) | st.binary(max_size=3), max_size=3).map(b"".join),
    asked=st.sampled_from(sorted(ASKED)),
)
def test_any_change_of_an_event_is_seen(at: int, removed: int, added: bytes, asked: str) -> None:
    event = BEFORE[:at] + added + BEFORE[at + removed :]
    plain = chunk("a", count(3)).replace(b'"choices":[', b'"choices": [')
    assert told(asked, 1, BEFORE, event) == told(asked, 1, plain, event)


def test_usage_is_found_again_when_its_numbers_grow() -> None:
    events = stream(fingerprint=learned())
    for completion in range(1, 1200):
        assert events.feed(chunk("é", count(completion))) == chunk("é")
        assert events.usage() == Usage(9, completion)


def test_cached_tokens_come_from_the_engines_total() -> None:
    events = stream()
    total = count(5, prompt_tokens_details={"cached_tokens": 8})
    body = {"id": "x", "choices": [], "usage": total}
    event = b"data: " + json.dumps(body, separators=(",", ":")).encode() + END
    assert events.feed(event) == b""
    assert events.usage() == Usage(9, 5, 8)


def test_cached_tokens_on_a_chunk_that_has_a_choice_are_kept() -> None:
    # Some engines put the final count on the last choice instead of on a chunk of its own.
    events = stream(choices=2)
    events.feed(
        chunk("a", count(5)) + chunk("b", count(6, prompt_tokens_details={"cached_tokens": 8}))
    )
    assert events.usage() == Usage(9, 6, 8)


def test_usage_that_is_no_object_is_the_engines_failure() -> None:
    with pytest.raises(EngineFailed):
        stream().feed(b'data: {"choices":[{"index":0}],"usage":{"a":{"b":{"c":{}}}' + END)


def test_event_larger_than_the_limit_is_refused_while_it_grows() -> None:
    events = stream(event_bytes_max=4096)
    for _ in range(8):
        assert events.feed(b"x" * 512) == b""
    with pytest.raises(EngineFailed, match="event_bytes_max"):
        events.feed(b"x")


def test_many_events_together_may_be_larger_than_the_limit_of_one() -> None:
    events = stream(event_bytes_max=1024)
    data = b"".join(chunk(f"word {n} ") for n in range(100))
    assert len(data) > 4096
    assert events.feed(data) == data


def test_large_event_in_small_pieces_is_kept_whole() -> None:
    large = chunk("x" * 200_000, count(1))
    events = stream()
    out = b"".join(events.feed(large[n : n + 1000]) for n in range(0, len(large), 1000))
    assert out == chunk("x" * 200_000)


ERROR = b'data: {"error":{"message":"boom","type":"InternalServerError","code":500}}' + END
DONE = b"data: [DONE]" + END


def test_error_of_the_engine_goes_to_the_caller() -> None:
    events = stream()
    assert events.feed(chunk("a", count(1)) + ERROR + DONE) == chunk("a") + ERROR + DONE
    assert events.has_error
    assert events.is_done
    assert events.usage() == Usage(9, 1)


def test_error_after_the_last_chunk_of_a_first_stream_loses_nothing() -> None:
    # The last chunk is held back until the fingerprint is known; an error must not be held with it.
    whole = recorded("one", "continuous")
    finish = whole[: whole.index(b'data: {"id":"chatcmpl-recorded-one","object"', 2900)]
    assert b'"finish_reason":"length"' in finish
    events = stream()
    out = events.feed(finish) + events.feed(ERROR)
    plain = recorded("one", "plain")
    kept = plain[: plain.index(b',"system_fingerprint"')]
    assert out == kept + b"}" + END + ERROR
    assert events.has_error


def test_events_without_usage_go_through_as_they_are() -> None:
    comment = b": still here" + END
    events = stream()
    assert events.feed(comment + chunk("a") + comment) == comment + chunk("a") + comment


def test_engine_without_a_fingerprint_is_learned_too() -> None:
    fingerprint = Fingerprint()
    whole = recorded("one", "continuous").replace(
        b',"system_fingerprint":"vllm-0.32.0-1980f723"', b""
    )
    plain = recorded("one", "plain").replace(b',"system_fingerprint":"vllm-0.32.0-1980f723"', b"")
    for _ in range(2):
        assert stream(fingerprint=fingerprint).feed(whole) == plain


@pytest.mark.parametrize("raw", [b"", b"x", b"[]", b"{", b'{"prompt_tokens":"a"}', b"null"])
def test_counts_that_are_none_are_none(raw: bytes) -> None:
    assert read_usage(raw) is None


def test_counts_are_read_with_and_without_details() -> None:
    assert read_usage(b'{"prompt_tokens":3,"completion_tokens":4}') == Usage(3, 4)
    raw = b'{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0}}'
    assert read_usage(raw) == Usage(3, 4, 0)
    assert read_usage(raw.replace(b'{"cached_tokens":0}', b"null")) == Usage(3, 4)
