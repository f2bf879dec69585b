"""Chat streams of an engine that reports no usage, or nonsense: counted by their events."""

from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.output_estimate import OutputEstimate
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage

CHUNK = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]%s}\n\n'
DONE = b"data: [DONE]\n\n"


def stream() -> EventStream:
    return EventStream(
        wants_usage=False,
        wants_continuous_usage=False,
        choices=1,
        fingerprint=Fingerprint(),
        event_bytes_max=1 << 20,
        estimate=OutputEstimate(100, 40, 50),
    )


def test_events_of_an_engine_that_reports_no_usage_are_counted() -> None:
    events = stream()
    assert events.usage() is None
    assert events.latest() is None
    for made in range(1, 4):
        events.feed(CHUNK % b"")
        assert events.usage() == Usage(100, made, 40, is_estimated=True)
        assert read_usage(events.latest() or b"") == events.usage()
    events.feed(b": a comment\n\n" + DONE)
    assert events.usage() == Usage(100, 3, 40, is_estimated=True)


def test_nothing_is_counted_of_a_stream_that_only_fails() -> None:
    events = stream()
    events.feed(b'data: {"error":{"message":"x"}}\n\n' + DONE)
    assert events.usage() is None


def test_usage_that_cannot_be_read_leaves_the_prompts_estimate() -> None:
    events = stream()
    events.feed(CHUNK % b',"usage":{"prompt_tokens":9,"completion_tokens":-4}')
    assert events.usage() == Usage(100, 0, 40, is_estimated=True)
