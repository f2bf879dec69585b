"""An answer that is withheld is counted and charged, ends the engine's work, and is not retried."""

import asyncio

import pytest
from tests.unit.engine.engine_answers import DONE, TOTAL
from tests.unit.engine.engine_line import Collector, make_request
from tests.unit.engine.tiny_engine import Answer, Call, until
from tests.unit.metering.journal_files import facts_of
from tests.unit.serving.screened_answers import DENY_BASH, calls, part, terms, text
from tests.unit.serving.small_fleet import Fleet

from penstock.errors import ToolCallForbidden
from penstock.records.request import Api, Outcome, RequestEnd
from penstock.records.usage import Usage

CALL = calls(part(0, "bash", '{"cmd":"secret"}'))
WHOLE = (
    b'{"id":"x","choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"c","type":'
    b'"function","function":{"name":"bash","arguments":"secret"}}]},"finish_reason":"tool_calls"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2}}'
)


class Commented(Collector):
    """A sink that counts comments."""

    comments = 0

    def comment(self) -> None:
        self.comments += 1


def streaming(*chunks: bytes) -> Answer:
    async def answer(call: Call) -> None:
        await call.begin_stream()
        for chunk in chunks:
            await call.chunk(chunk)
        await call.wait_until_dropped()

    return answer


async def whole(call: Call) -> None:
    await call.answer(WHOLE)


async def withheld(
    fleet: Fleet, *, is_stream: bool, api: Api = Api.CHAT
) -> tuple[Collector, RequestEnd]:
    sink, end = Collector(), RequestEnd()
    body = b'{"input":"hi","messages":[],"stream":%s}' % (b"true" if is_stream else b"false")
    request = make_request(is_stream=is_stream, body=body, api=api, tool_terms=terms(DENY_BASH))
    with pytest.raises(ToolCallForbidden):
        await fleet.path.run(request, sink, end)
    (row,) = [facts_of(row) for row in fleet.rows()]
    assert (row["outcome"], row["error"]) == ("ok", "tool_call_forbidden")
    assert (end.outcome, end.error_code) == (Outcome.OK, "tool_call_forbidden")
    assert b"secret" not in b"".join(sink.events)
    assert sink.answer is None
    assert len(fleet.router.ejections) == 0
    assert sum(len(engine.calls) for engine in fleet.engines) == 1
    return sink, end


async def test_a_stream_that_begins_with_the_call_never_begins(fleet: Fleet) -> None:
    head_and_call = b"%x\r\n%s\r\n" % (len(CALL), CALL)

    async def at_once(call: Call) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked"
        await call.send(head + b"\r\n\r\n" + head_and_call)
        await call.wait_until_dropped()

    for _ in range(2):
        await fleet.add(at_once)
    sink, end = await withheld(fleet, is_stream=True)
    assert (sink.begun, sink.events) == (0, [])
    assert end.usage is not None
    await until(lambda: any(engine.dropped for engine in fleet.engines))


async def test_what_came_before_the_call_has_gone_out(fleet: Fleet) -> None:
    for _ in range(2):
        await fleet.add(streaming(text("so") + CALL, text("more")))
    sink, end = await withheld(fleet, is_stream=True)
    assert sink.events == [text("so")]
    assert end.usage is not None
    assert end.usage.completion_tokens > 0


async def test_the_ledger_has_the_error_also_where_the_stream_was_complete(fleet: Fleet) -> None:
    await fleet.add(streaming(CALL + TOTAL + DONE))
    _, end = await withheld(fleet, is_stream=True)
    assert end.usage == Usage(3, 2, 1)


@pytest.mark.parametrize(
    ("api", "first"),
    [
        (
            Api.RESPONSES,
            b'event: response.output_item.added\ndata: {"item":{"type":"function_call",'
            b'"name":"bash","arguments":""},"output_index":0}\n\n',
        ),
        (
            Api.MESSAGES,
            b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            b'"content_block":{"type":"tool_use","id":"t","name":"bash","input":{}}}\n\n',
        ),
    ],
)
async def test_a_call_that_is_all_of_a_stream_is_charged(
    fleet: Fleet, api: Api, first: bytes
) -> None:
    """These APIs report usage at their end, and a call begins with an event that adds no text."""
    await fleet.add(streaming(first))
    _, end = await withheld(fleet, is_stream=True, api=api)
    assert end.usage is not None
    assert (end.usage.completion_tokens, end.usage.is_estimated) == (1, True)


async def test_a_whole_answer_is_withheld_and_charged(fleet: Fleet) -> None:
    for _ in range(2):
        await fleet.add(whole)
    _, end = await withheld(fleet, is_stream=False)
    assert end.usage == Usage(3, 2)


async def test_a_client_hears_of_a_stream_that_is_held(fleet: Fleet) -> None:
    steps = [asyncio.Event(), asyncio.Event()]

    async def slowly(call: Call) -> None:
        await call.begin_stream()
        await call.chunk(text("so"))
        for step in steps:
            await call.chunk(calls(part(0, "read")))
            await step.wait()
        await call.chunk(calls(part(0, None, "{}")) + TOTAL + DONE)
        await call.end_stream()

    engine = await fleet.add(slowly)
    sink, end = Commented(), RequestEnd()
    request = make_request(is_stream=True, tool_terms=terms(DENY_BASH))
    running = asyncio.ensure_future(fleet.path.run(request, sink, end))
    await until(lambda: bool(engine.calls) and bool(sink.events))
    fleet.clock.advance(20.0)
    steps[0].set()
    await until(lambda: sink.comments > 0)
    steps[1].set()
    await running
    assert sink.comments == 1
    assert end.error_code == ""
