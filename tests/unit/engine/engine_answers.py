"""What a `tiny_engine` answers in tests: one answer, whole and as a stream, with its usage."""

from tests.unit.engine.tiny_engine import Call

ANSWER = (
    b'{"id":"x","choices":[{"index":0,"message":{"content":"hi"}}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}'
)
EVENT = (
    b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]%s}\n\n'
)
TOTAL = (
    b'data: {"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":1}}}\n\n'
)
DONE = b"data: [DONE]\n\n"


def counted(text: bytes, completion: int) -> bytes:
    return EVENT % (text, b',"usage":{"prompt_tokens":3,"completion_tokens":%d}' % completion)


async def answer_whole(call: Call) -> None:
    await call.answer(ANSWER)


async def answer_stream(call: Call) -> None:
    await call.begin_stream()
    await call.chunk(counted(b"a", 1))
    await call.chunk(counted(b"b", 2) + TOTAL + DONE)
    await call.end_stream()
