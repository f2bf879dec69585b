"""Streams with named events: byte for byte, in any pieces, and counted wherever they are cut."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.named_events import MessagesEvents, NamedEvents, ResponsesEvents
from penstock.engine.output_estimate import OutputEstimate
from penstock.errors import EngineFailed
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage

RECORDED = Path(__file__).with_name("recorded")
KINDS: dict[str, type[NamedEvents]] = {"responses": ResponsesEvents, "messages": MessagesEvents}
USAGES = {
    "responses.text": Usage(511, 5, 384),
    "responses.tools": Usage(33, 60, 0),
    "messages.text": Usage(511, 5, 384),
    "messages.tools": Usage(33, 60, 0),
}
END = b"\n\n"


def recorded(case: str) -> bytes:
    return (RECORDED / f"{case}.sse").read_bytes()


def stream(case: str, event_bytes_max: int = 1 << 20) -> NamedEvents:
    return KINDS[case.partition(".")[0]](event_bytes_max, OutputEstimate(600, 300, 100))


@settings(max_examples=80, deadline=None)
@given(case=st.sampled_from(sorted(USAGES)), data=st.data())
def test_any_split_gives_the_same_bytes_and_the_same_usage(case: str, data: st.DataObject) -> None:
    whole, events = recorded(case), stream(case)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=40)))
    places = [0, *cuts, len(whole)]
    out = []
    for start, end in pairwise(places):
        piece = events.feed(whole[start:end])
        assert not piece or piece.endswith(END)
        out.append(piece)
    assert b"".join(out) == whole
    assert (events.is_done, events.has_error) == (True, False)
    assert events.usage() == USAGES[case]
    assert read_usage(events.latest() or b"") == USAGES[case]


@pytest.mark.parametrize("case", USAGES)
def test_stream_is_counted_by_its_events_until_the_engine_reports_its_usage(case: str) -> None:
    events, parts = stream(case), recorded(case)[:-2].split(END)
    is_messages = case.startswith("messages")
    telling = -2 if is_messages else -1
    # Messages begin with the prompt's tokens; half of the estimate was expected in the cache.
    prompt = USAGES[case].prompt_tokens if is_messages else 600
    made = 0
    for part in parts[:telling]:
        events.feed(part + END)
        made += part.partition(b"\n")[0].endswith(b"delta")
        cut = Usage(prompt, made, prompt // 2, is_estimated=True) if made else None
        assert events.usage() == cut
        assert read_usage(events.latest() or b"") == cut
        assert not events.is_done
    assert 0 < made <= USAGES[case].completion_tokens
    events.feed(parts[telling] + END)
    assert events.usage() == USAGES[case]


def test_what_comes_before_the_model_speaks_is_held_back() -> None:
    events, parts = stream("responses.text"), recorded("responses.text")[:-2].split(END)
    assert events.feed(parts[0] + END) == b""
    assert events.feed(parts[1] + END) == b""
    released = events.feed(parts[2] + END)
    assert released == END.join(parts[:3]) + END
    assert events.feed(parts[3] + END) == parts[3] + END


@pytest.mark.parametrize(
    ("case", "event"),
    [
        ("responses", b'event: response.failed\ndata: {"type":"response.failed","response":{}}'),
        ("responses", b'event: error\ndata: {"type":"error","code":"x"}'),
        ("messages", b'event: error\ndata: {"type":"error","error":{"type":"internal_error"}}'),
    ],
)
def test_engines_own_error_goes_through_and_is_noticed(case: str, event: bytes) -> None:
    events = stream(case)
    assert events.feed(event + END) == event + END
    assert (events.has_error, events.is_done, events.usage()) == (True, False, None)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"null",
        b"{}",
        b'{"response":{"usage":5}}',
        b'{"response":{"usage":{"input_tokens":-1}}}',
    ],
)
def test_usage_that_is_no_usage_leaves_the_estimate(data: bytes) -> None:
    events = stream("responses")
    event = b"event: response.completed\ndata: " + data + END
    delta = b'event: response.output_text.delta\ndata: {"delta":"x"}' + END
    assert events.feed(delta + event) == delta + event
    assert events.is_done
    assert events.usage() == Usage(600, 1, 300, is_estimated=True)


@pytest.mark.parametrize(
    ("case", "event"),
    [
        ("responses", b'event: response.function_call_arguments.delta\ndata: {"delta":"%s"}'),
        ("responses", b'event: response.output_text.delta\ndata: {"delta":"%s"}'),
        ("messages", b'event: content_block_delta\ndata: {"delta":{"partial_json":"%s"}}'),
        ("messages", b'event: content_block_delta\ndata: {"delta":{"text":"%s"}}'),
        ("messages", b'event: content_block_delta\ndata: {"delta":{"thinking":"%s"}}'),
    ],
)
def test_event_with_much_text_is_more_than_one_token(case: str, event: bytes) -> None:
    events = stream(case)
    events.feed(event % (b"x" * 240) + END)
    assert events.usage() == Usage(600, 30, 300, is_estimated=True)


@pytest.mark.parametrize("data", [b"{", b'{"delta":5}', b'{"delta":{"text":5}}', b"{}"])
def test_event_that_cannot_be_read_is_one_token(data: bytes) -> None:
    events = stream("messages")
    events.feed(b"event: content_block_delta\ndata: " + data + END)
    assert events.usage() == Usage(600, 1, 300, is_estimated=True)


@pytest.mark.parametrize("data", [b"{", b'{"message":{}}', b'{"message":{"usage":{}}}'])
def test_start_without_a_count_leaves_the_prompts_estimate(data: bytes) -> None:
    events = stream("messages")
    events.feed(b"event: message_start\ndata: " + data + END)
    assert events.usage() is None
    events.feed(b'event: content_block_delta\ndata: {"delta":{"text":"x"}}' + END)
    assert events.usage() == Usage(600, 1, 300, is_estimated=True)


def test_models_words_are_not_taken_for_an_event() -> None:
    events = stream("messages")
    said = rb"event: content_block_delta" + b"\n" + rb'data: {"text":"\n\nevent: message_stop\n"}'
    assert events.feed(said + END) == said + END
    assert not events.is_done


@pytest.mark.parametrize("event", [b"event: x\ndata: ", b"event: response.created\ndata: "])
def test_event_that_is_too_large_is_refused(event: bytes) -> None:
    events = stream("responses", event_bytes_max=1000)
    is_opening = b"created" in event
    piece = event + b"x" * (1300 if is_opening else 400) + (END if is_opening else b"")
    assert events.feed(piece) == events.feed(piece) == b""
    with pytest.raises(EngineFailed, match="event_bytes_max"):
        events.feed(piece)
