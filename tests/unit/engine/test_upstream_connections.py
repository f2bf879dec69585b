"""Connections to an engine: kept, renewed when stale, and never left or shared."""

import asyncio
import gc
import ssl
from pathlib import Path

import pytest
from tests.unit.engine.engine_answers import ANSWER, answer_stream, answer_whole, counted
from tests.unit.engine.engine_line import Collector, Line, Lines, Notes, make_request
from tests.unit.engine.tiny_engine import Call, TinyEngine, let_the_loop_run, until

from penstock.engine.connection import Connection
from penstock.engine.settings import EngineSettings
from penstock.errors import EngineLost, ReplicaUnreachable


async def ask(line: Line, *, is_stream: bool = False) -> Collector:
    sink = Collector()
    request = make_request(is_stream=is_stream)
    await line.client.run(request, line.client.attempt(request, sink, Notes()))
    return sink


async def close_without_a_word(call: Call) -> None:
    call.close()


async def test_connection_is_used_again(lines: Lines) -> None:
    line = await lines.open(answer_whole, answer_stream, answer_whole)
    assert (await ask(line)).answer == ANSWER
    assert (await ask(line, is_stream=True)).events
    assert (await ask(line)).answer == ANSWER
    assert line.engine.accepted == 1
    assert line.client.open_connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(lines: Lines) -> None:
    gate = asyncio.Event()

    async def together(call: Call) -> None:
        await gate.wait()
        await call.answer(ANSWER.replace(b'"hi"', b'"%d"' % call.connection))

    line = await lines.open(together)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(line)) for _ in range(5)]
        await until(lambda: len(line.engine.calls) == 5)
        gate.set()
    answers = {task.result().answer for task in tasks}
    assert len(answers) == 5
    assert line.engine.accepted == 5


async def test_connection_that_the_engine_closed_while_idle_is_not_used(lines: Lines) -> None:
    line = await lines.open(answer_whole)
    await ask(line)
    line.engine.close_connections()
    await until(lambda: line.client.open_connections == 0)
    assert (await ask(line)).answer == ANSWER
    assert len(line.engine.calls) == 2


@pytest.mark.parametrize("is_stream", [True, False])
async def test_stale_connection_is_retried_once_on_a_fresh_one(
    lines: Lines, is_stream: bool
) -> None:
    good = answer_stream if is_stream else answer_whole
    line = await lines.open(good, close_without_a_word, good)
    await ask(line, is_stream=is_stream)
    sink = await ask(line, is_stream=is_stream)
    assert sink.events or sink.answer == ANSWER
    assert sink.begun <= int(is_stream)
    assert [call.connection for call in line.engine.calls] == [0, 0, 1]
    assert line.engine.calls[1].body == line.engine.calls[2].body


async def test_stale_connection_that_was_reset_is_retried_too(lines: Lines) -> None:
    async def reset(call: Call) -> None:
        call.writer.transport.abort()

    line = await lines.open(answer_whole, reset, answer_whole)
    await ask(line)
    assert (await ask(line)).answer == ANSWER


async def test_stale_connection_is_retried_no_second_time(lines: Lines) -> None:
    line = await lines.open(answer_whole, close_without_a_word, close_without_a_word, answer_whole)
    await ask(line)
    with pytest.raises(ReplicaUnreachable):
        await ask(line)
    assert len(line.engine.calls) == 3


async def test_fresh_connection_is_not_retried(lines: Lines) -> None:
    line = await lines.open(close_without_a_word, answer_whole)
    with pytest.raises(ReplicaUnreachable):
        await ask(line)
    assert len(line.engine.calls) == 1


@pytest.mark.parametrize("said", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_request_is_not_sent_again_once_the_engine_has_answered(
    lines: Lines, said: bytes
) -> None:
    async def begin_and_close(call: Call) -> None:
        await call.send(said)
        call.close()

    line = await lines.open(answer_whole, begin_and_close, answer_whole)
    await ask(line)
    with pytest.raises(EngineLost):
        await ask(line)
    assert len(line.engine.calls) == 2


@pytest.mark.parametrize("said", [b"x", b"\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"])
async def test_bytes_that_nobody_asked_for_close_the_connection(lines: Lines, said: bytes) -> None:
    line = await lines.open(answer_whole)
    await ask(line)
    line.engine.writers[0].write(said)
    await until(lambda: line.client.open_connections == 0)
    assert (await ask(line)).answer == ANSWER
    assert line.engine.accepted == 2


EVIL = b'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"evil":1}'


@pytest.mark.parametrize("behind", [EVIL, EVIL[:20], EVIL[:45], b"HTTP", b"garbage", EVIL * 3])
async def test_second_answer_behind_the_first_is_never_taken_for_the_next_requests(
    lines: Lines, behind: bytes
) -> None:
    async def twice(call: Call) -> None:
        await call.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s%s" % (len(ANSWER), ANSWER, behind)
        )

    line = await lines.open(twice, answer_whole)
    assert (await ask(line)).answer == ANSWER
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(line)) for _ in range(3)]
    assert {task.result().answer for task in tasks} == {ANSWER}
    assert 0 not in {call.connection for call in line.engine.calls[1:]}


async def test_connection_that_the_engine_will_close_is_not_kept(lines: Lines) -> None:
    async def last(call: Call) -> None:
        await call.answer(ANSWER, headers=b"connection: close\r\n")

    line = await lines.open(last)
    for _ in range(2):
        assert (await ask(line)).answer == ANSWER
        await until(lambda: line.client.open_connections == 0)
    assert line.engine.accepted == 2


async def test_idle_connection_is_let_go_before_the_engine_would_close_it(lines: Lines) -> None:
    line = await lines.open(answer_whole, settings=EngineSettings(idle_seconds=4.0))
    await ask(line)
    line.clock.advance(3.9)
    await ask(line)
    assert line.engine.accepted == 1
    line.clock.advance(4.1)
    await ask(line)
    assert line.engine.accepted == 2
    await until(lambda: line.client.open_connections == 1)


async def test_no_more_idle_connections_are_kept_than_allowed(lines: Lines) -> None:
    gate = asyncio.Event()

    async def together(call: Call) -> None:
        await gate.wait()
        await call.answer(ANSWER)

    line = await lines.open(together, settings=EngineSettings(idle_connections_max=2))
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(ask(line))
        await until(lambda: len(line.engine.calls) == 5)
        gate.set()
    await until(lambda: line.client.open_connections == 2)


async def test_connection_that_fell_idle_while_paused_is_read_again(lines: Lines) -> None:
    # The last bytes of an answer may fill the caller's buffer: the next answer must still be read.
    line = await lines.open(answer_stream, answer_whole)
    sink = Collector()
    sink.is_full = True
    request = make_request(is_stream=True)
    running = asyncio.ensure_future(
        line.client.run(request, line.client.attempt(request, sink, Notes()))
    )
    while not running.done():
        if sink.resume is not None and len(sink.events) == 1:
            resume, sink.resume = sink.resume, None
            resume()
        await asyncio.sleep(0)
    await running
    assert (await ask(line)).answer == ANSWER
    assert line.engine.accepted == 1


async def test_closed_client_leaves_no_connection(lines: Lines) -> None:
    line = await lines.open(answer_whole)
    await ask(line)
    line.client.close()
    await until(lambda: line.client.open_connections == 0)


@pytest.mark.parametrize("kind", ["none", "own", "other", "any", "own and any"])
async def test_api_key_goes_to_its_own_engine_only(lines: Lines, kind: str) -> None:
    engine = await TinyEngine(answer_whole).start()
    keys = {
        "none": {},
        "own": {engine.url: "own-key"},
        "other": {"http://127.0.0.1:1": "other-key"},
        "any": {"*": "any-key"},
        "own and any": {"*": "any-key", engine.url: "own-key"},
    }[kind]
    line = lines.to(engine, EngineSettings(api_keys=keys))
    await ask(line)
    await line.client.is_healthy()
    sent = {"own": b"own-key", "any": b"any-key", "own and any": b"own-key"}.get(kind)
    for call in engine.calls:
        if sent is None:
            assert b"authorization" not in call.head.lower()
        else:
            assert b"\r\nauthorization: Bearer %s\r\n" % sent in call.head


async def tls_engine(certificate: tuple[Path, Path]) -> TinyEngine:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return await TinyEngine(answer_whole).start(context)


async def test_https_engine_is_asked_when_its_authority_is_trusted(
    lines: Lines, certificate: tuple[Path, Path]
) -> None:
    line = lines.to(await tls_engine(certificate), EngineSettings(ca_file=str(certificate[0])))
    assert (await ask(line)).answer == ANSWER
    assert (await ask(line)).answer == ANSWER
    assert line.engine.accepted == 1


async def test_https_engine_is_refused_when_its_authority_is_unknown(
    lines: Lines, certificate: tuple[Path, Path]
) -> None:
    line = lines.to(await tls_engine(certificate), EngineSettings())
    with pytest.raises(ReplicaUnreachable):
        await ask(line)
    assert line.engine.calls == []


async def test_https_engine_is_refused_when_the_certificate_is_for_another_host(
    lines: Lines, certificate: tuple[Path, Path]
) -> None:
    engine = await tls_engine(certificate)
    line = Line(engine, EngineSettings(ca_file=str(certificate[0])))
    lines.to(engine, EngineSettings())
    line.client._pool._host = "localhost"
    with pytest.raises(ReplicaUnreachable):
        await ask(line)
    assert engine.calls == []
    await until(lambda: line.client.open_connections == 0)


async def test_engine_that_never_finishes_its_handshake_is_unreachable_in_time(
    lines: Lines,
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line = await lines.open(answer_whole, settings=EngineSettings(connect_seconds=0.03))
    line.client._pool._port = port
    line.client._pool._ssl = ssl.create_default_context()
    with pytest.raises(ReplicaUnreachable):
        await ask(line)
    assert line.client.open_connections == 0
    server.close()
    await let_the_loop_run()


async def test_health_is_a_200_within_the_connect_timeout(lines: Lines) -> None:
    async def healthy(call: Call) -> None:
        await call.answer(b"", status=200 if len(call.engine.calls) < 3 else 503)

    line = await lines.open(healthy, path="/base")
    assert await line.client.is_healthy()
    assert await line.client.is_healthy()
    assert not await line.client.is_healthy()
    assert line.engine.calls[0].head.startswith(b"GET /base/health HTTP/1.1\r\n")
    assert line.engine.accepted == 1


async def test_engine_that_does_not_answer_is_not_healthy_and_its_connection_is_dropped(
    lines: Lines,
) -> None:
    async def silent(call: Call) -> None:
        await call.wait_until_dropped()

    line = await lines.open(silent, settings=EngineSettings(connect_seconds=0.03))
    assert not await line.client.is_healthy()
    await until(lambda: line.engine.dropped == 1)
    assert line.client.open_connections == 0


@pytest.mark.parametrize("how", ["closes", "babbles", "refuses"])
async def test_engine_that_fails_a_probe_is_not_healthy(lines: Lines, how: str) -> None:
    async def babble(call: Call) -> None:
        await call.send(b"hello?\r\n\r\n")
        await call.wait_until_dropped()

    line = await lines.open(close_without_a_word if how == "closes" else babble)
    if how == "refuses":
        await line.engine.stop()
    assert not await line.client.is_healthy()


async def test_events_of_a_kept_connection_belong_to_their_own_request(lines: Lines) -> None:
    async def numbered(call: Call) -> None:
        number = len(call.engine.calls)
        await call.begin_stream()
        await call.chunk(counted(b"%d" % number, 1) + b"data: [DONE]\n\n")
        await call.end_stream()

    line = await lines.open(numbered)
    for number in range(1, 6):
        sink = await ask(line, is_stream=True)
        assert b'"content":"%d"' % number in b"".join(sink.events)
    assert line.engine.accepted == 1


async def test_a_closed_connection_leaves_nothing_for_the_garbage_collector(lines: Lines) -> None:
    line = await lines.open(answer_whole)
    gc.collect()
    before = _connections_in_memory()
    gc.disable()
    try:
        for _ in range(3):
            await ask(line)
            assert _connections_in_memory() == before + 1
            line.engine.close_connections()
            await until(lambda: line.client.open_connections == 0)
        await let_the_loop_run()
        assert _connections_in_memory() == before
    finally:
        gc.enable()


def _connections_in_memory() -> int:
    return sum(type(each) is Connection for each in gc.get_objects())
