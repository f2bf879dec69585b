"""One request on one replica: what is sent, what comes back, and which error it ends with."""

import json

import msgspec
import pytest
from tests.unit.engine.engine_answers import (
    ANSWER,
    DONE,
    EVENT,
    answer_stream,
    answer_whole,
    counted,
)
from tests.unit.engine.engine_line import Collector, Line, Lines, Notes, make_request
from tests.unit.engine.tiny_engine import Call

from penstock.engine.settings import EngineSettings
from penstock.errors import (
    EngineFailed,
    EngineLost,
    Error,
    InvalidRequest,
    OutOfCapacity,
    ReplicaUnreachable,
)
from penstock.records.usage import Usage


async def ask(line: Line, sink: Collector) -> None:
    request = make_request()
    await line.client.run(request, line.client.attempt(request, sink, Notes()))


async def test_whole_answer_goes_to_the_sink_with_its_usage(lines: Lines) -> None:
    async def loaded(call: Call) -> None:
        await call.answer(ANSWER, headers=b"Endpoint-Load-Metrics: JSON {}\r\n")

    line = await lines.open(loaded)
    sink = Collector()
    attempt = line.client.attempt(make_request(), sink, Notes())
    await line.client.run(make_request(), attempt)
    assert sink.answer == ANSWER
    assert sink.events == []
    assert attempt.usage == Usage(3, 2, 1)
    assert attempt.was_answered
    assert attempt.load == b"JSON {}"
    assert attempt.first_data_at == line.clock.monotonic()


async def test_stream_goes_to_the_sink_cut_to_what_was_asked(lines: Lines) -> None:
    line = await lines.open(answer_stream)
    sink = Collector()
    request = make_request(is_stream=True)
    attempt = line.client.attempt(request, sink, Notes())
    await line.client.run(request, attempt)
    assert b"".join(sink.events) == EVENT % (b"a", b"") + EVENT % (b"b", b"") + DONE
    assert sink.begun <= 1, "not told where events came with the head"
    assert sink.answer is None
    assert attempt.usage == Usage(3, 2, 1)
    assert attempt.first_data_at is not None


async def test_request_carries_our_id_and_nothing_of_the_callers_headers(lines: Lines) -> None:
    line = await lines.open(answer_whole, path="/base/")
    await ask(line, Collector())
    call = line.engine.calls[0]
    first, *headers = call.head.decode().strip().split("\r\n")
    assert first == "POST /base/v1/chat/completions HTTP/1.1"
    assert dict(header.split(": ", 1) for header in headers) == {
        "host": line.engine.url.removeprefix("http://"),
        "content-type": "application/json",
        "endpoint-load-metrics-format": "JSON",
        "x-request-id": "0190-request",
        "content-length": str(len(call.body)),
    }
    assert json.loads(call.body)["model"] == "served"


@pytest.mark.parametrize("size", [10, 16_000, 17_000, 1_000_000, 8_000_000])
async def test_prompt_of_any_size_arrives_whole(lines: Lines, size: int) -> None:
    line = await lines.open(answer_whole)
    messages = [{"role": "user", "content": "é" * (size // 2)}]
    body = msgspec.json.encode({"messages": messages, "temperature": 0})
    request = make_request(body=body)
    await line.client.run(request, line.client.attempt(request, Collector(), Notes()))
    sent = json.loads(line.engine.calls[0].body)
    assert sent["messages"] == messages
    assert sent["temperature"] == 0


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'{"error":{"message":"too long","param":"messages"}}', InvalidRequest),
        (404, b"{}", InvalidRequest),
        (422, b'{"message":"no"}', InvalidRequest),
        (503, b"", OutOfCapacity),
        (500, b"Internal Server Error", EngineFailed),
        (401, b"{}", EngineFailed),
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
async def test_engines_refusal_ends_the_try_and_keeps_the_connection(
    lines: Lines, status: int, body: bytes, expected: type[Error], is_stream: bool
) -> None:
    async def refuse(call: Call) -> None:
        await call.answer(body, status=status)

    line = await lines.open(refuse, refuse)
    request = make_request(is_stream=is_stream)
    for _ in range(2):
        sink = Collector()
        attempt = line.client.attempt(request, sink, Notes())
        with pytest.raises(expected):
            await line.client.run(request, attempt)
        assert (sink.begun, sink.events, sink.answer) == (0, [], None)
        assert attempt.usage is None
    assert line.engine.accepted == 1


@pytest.mark.parametrize("is_stream", [True, False])
async def test_answer_that_is_not_http_is_the_engines_failure(
    lines: Lines, is_stream: bool
) -> None:
    async def babble(call: Call) -> None:
        await call.send(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        await call.wait_until_dropped()

    line = await lines.open(babble)
    request = make_request(is_stream=is_stream)
    with pytest.raises(EngineFailed):
        await line.client.run(request, line.client.attempt(request, Collector(), Notes()))


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"usage":5}'])
async def test_whole_answer_that_is_no_completion_is_the_engines_failure(
    lines: Lines, body: bytes
) -> None:
    async def odd(call: Call) -> None:
        await call.answer(body)

    line = await lines.open(odd)
    sink = Collector()
    with pytest.raises(EngineFailed):
        await ask(line, sink)
    assert sink.answer is None


async def test_stream_that_ends_without_its_end_mark_is_a_lost_engine(lines: Lines) -> None:
    async def cut(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1))
        await call.end_stream()

    line = await lines.open(cut)
    request = make_request(is_stream=True)
    sink = Collector()
    attempt = line.client.attempt(request, sink, Notes())
    with pytest.raises(EngineLost):
        await line.client.run(request, attempt)
    assert sink.events == [EVENT % (b"a", b"")]
    assert attempt.usage == Usage(3, 1)


async def test_json_where_a_stream_was_asked_is_the_engines_failure(lines: Lines) -> None:
    line = await lines.open(answer_whole)
    request = make_request(is_stream=True)
    sink = Collector()
    with pytest.raises(EngineFailed):
        await line.client.run(request, line.client.attempt(request, sink, Notes()))
    assert (sink.begun, sink.events) == (0, [])


async def test_engine_lost_in_mid_stream_keeps_the_usage_so_far(lines: Lines) -> None:
    async def die(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(counted(b"a", 1) + counted(b"b", 2))
        call.writer.transport.abort()

    line = await lines.open(die)
    request = make_request(is_stream=True)
    attempt = line.client.attempt(request, Collector(), Notes())
    with pytest.raises(EngineLost):
        await line.client.run(request, attempt)
    assert attempt.usage == Usage(3, 2)
    assert attempt.was_answered


async def test_engine_that_refuses_connections_is_unreachable(lines: Lines) -> None:
    line = await lines.open(answer_whole)
    await line.engine.stop()
    with pytest.raises(ReplicaUnreachable):
        await ask(line, Collector())


async def test_whole_answer_over_the_limit_is_refused(lines: Lines) -> None:
    async def flood(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
        for _ in range(64):
            await call.send(b"x" * 4096)
        await call.wait_until_dropped()

    line = await lines.open(flood, settings=EngineSettings(answer_bytes_max=8192))
    with pytest.raises(EngineFailed, match="answer_bytes_max"):
        await ask(line, Collector())


async def test_single_event_over_the_limit_is_refused(lines: Lines) -> None:
    async def flood(call: Call) -> None:
        await call.begin_stream()
        for _ in range(64):
            await call.chunk(b"x" * 4096)
        await call.wait_until_dropped()

    line = await lines.open(flood, settings=EngineSettings(event_bytes_max=8192))
    request = make_request(is_stream=True)
    sink = Collector()
    with pytest.raises(EngineFailed, match="event_bytes_max"):
        await line.client.run(request, line.client.attempt(request, sink, Notes()))
    assert sink.events == []


async def test_sink_that_cannot_shape_the_answer_fails_the_request(lines: Lines) -> None:
    class Picky(Collector):
        def shape(self, answer: bytes) -> bytes:
            del answer
            raise EngineFailed("not a completion")

    line = await lines.open(answer_whole)
    with pytest.raises(EngineFailed, match="not a completion"):
        await ask(line, Picky())


async def test_answer_that_ends_with_its_connection_is_whole(lines: Lines) -> None:
    # HTTP/1.0 framing: no length, no chunks, the end is the close.
    async def old(call: Call) -> None:
        await call.send(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + ANSWER)
        call.close()

    line = await lines.open(old)
    sink = Collector()
    attempt = line.client.attempt(make_request(), sink, Notes())
    await line.client.run(make_request(), attempt)
    assert sink.answer == ANSWER
    assert attempt.usage == Usage(3, 2, 1)


async def test_answer_cut_short_of_its_length_is_a_lost_engine(lines: Lines) -> None:
    async def short(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + ANSWER)
        call.close()

    line = await lines.open(short)
    sink = Collector()
    with pytest.raises(EngineLost):
        await ask(line, sink)
    assert sink.answer is None


@pytest.mark.parametrize("is_stream", [True, False])
async def test_interim_heads_are_skipped(lines: Lines, is_stream: bool) -> None:
    async def hint(call: Call) -> None:
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await call.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\ncontent-type: a/b\r\n\r\n")
        await (answer_stream if is_stream else answer_whole)(call)

    line = await lines.open(hint)
    request = make_request(is_stream=is_stream)
    for _ in range(2):
        sink = Collector()
        await line.client.run(request, line.client.attempt(request, sink, Notes()))
        assert sink.events if is_stream else sink.answer == ANSWER
    assert line.engine.accepted == 1


async def test_request_is_sent_once_a_connection_has_it_and_no_longer_when_it_is_refused(
    lines: Lines,
) -> None:
    async def refuse(call: Call) -> None:
        await call.answer(b'{"error":{"message":"busy"}}', status=503)

    line = await lines.open(answer_whole, refuse)
    request = make_request()
    answered = line.client.attempt(request, Collector(), Notes())
    was_sent = [answered.was_sent]
    await line.client.run(request, answered)
    was_sent.append(answered.was_sent)
    assert was_sent == [False, True]
    refused = line.client.attempt(request, Collector(), Notes())
    with pytest.raises(OutOfCapacity):
        await line.client.run(request, refused)
    assert not refused.was_sent


async def test_answer_without_usage_is_estimated(lines: Lines) -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"%s"}}]}' % (b"word " * 40)

    async def silent_of_usage(call: Call) -> None:
        await call.answer(body)

    line = await lines.open(silent_of_usage)
    notes = Notes()
    request = make_request(prompt_tokens_estimate=9, output_tokens_max=100)
    await line.client.run(request, line.client.attempt(request, Collector(), notes, 3))
    assert notes.settled == [Usage(9, len(body) // 8, 3, is_estimated=True)]
