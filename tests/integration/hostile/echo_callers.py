"""Callers of two accounts that share connections, pipeline, and cut their bytes anywhere.

Each request carries a word of its own, which an echo engine answers with.
"""

import asyncio
import json
import random
from collections.abc import Iterator

import msgspec
from tests.integration.cells.gateway_cell import CHAT
from tests.integration.hostile.echo_engine import cut, in_chunks
from tests.integration.hostile.hostile_caller import HTTP, V1, Caller
from tests.integration.hostile.hostile_heads import head
from tests.integration.hostile.hostile_shot import Answer, Malformed, read_answer

_PIPELINED_MAX = 4
_CUTS_MAX = 5
_PAUSES_SECONDS = (0.0, 0.0, 0.0, 0.0005, 0.002)
_FILLER_BYTES = (*(0,) * 20, *(30,) * 10, *(300,) * 10, *(3000,) * 5, 70_000)
# A connection is closed and opened again after about so many turns.
_TURNS_MEAN = 60
_ANSWER_SECONDS = 20.0
_LINE_BYTES_MAX = 2**20


class Asked(msgspec.Struct, frozen=True):
    """One request: its word, and its bytes."""

    word: str
    data: bytes


def asked(number: int, callers: list[Caller], source: random.Random) -> Asked:
    """A chat as one of the callers may write it."""
    account = source.randrange(len(callers))
    word = f"word-{number}-of-{account}"
    filler = "x" * source.choice(_FILLER_BYTES)
    body = json.dumps({
        "model": CHAT,
        "messages": [{"role": "user", "content": f"{word} {filler}"}],
        "stream": source.random() < 0.4,
    }).encode()  # fmt: skip
    lines = [b"host: gateway", callers[account].key_line]
    if source.random() < 0.5:
        lines.append(b"x-session-id: session-%d" % source.randrange(20))
    if source.random() < 0.3:
        lines.append(b"x-request-id: %b" % word.encode())
    if source.random() < 0.25:
        lines.append(b"transfer-encoding: chunked")
        body = in_chunks(body, source) + b"\r\n"
    else:
        lines.append(b"content-length: %d" % len(body))
    return Asked(word, head(b"POST", V1, HTTP, *lines) + body)


async def converse(port: int, requests: Iterator[Asked], source: random.Random) -> None:
    """Send requests on one connection after the other, until there are none left.

    Raises Malformed where an answer is missing, is an error, or is another request's.
    """
    while await _one_connection(port, requests, source):
        pass


async def _one_connection(port: int, requests: Iterator[Asked], source: random.Random) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LINE_BYTES_MAX)
    try:
        while source.random() > 1 / _TURNS_MEAN:
            count = source.randint(1, _PIPELINED_MAX)
            together = [each for _, each in zip(range(count), requests, strict=False)]
            if not together:
                return False
            for piece in cut(b"".join(each.data for each in together), source, _CUTS_MAX):
                writer.write(piece)
                await asyncio.sleep(source.choice(_PAUSES_SECONDS))
            for each in together:
                _check(each, await _answer_to(each, reader))
    finally:
        writer.transport.abort()
    return True


async def _answer_to(request: Asked, reader: asyncio.StreamReader) -> Answer:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await read_answer(reader)
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as lost:
        raise Malformed(f"{request.word}: the answer is lost: {lost!r}") from None


def _check(request: Asked, answer: Answer) -> None:
    if answer.status != 200:
        raise Malformed(f"{request.word}: {answer.status} {answer.body[:500]!r}")
    if echoed(answer) != f"{request.word} said":
        raise Malformed(f"{request.word}: answered with {answer.body[:1000]!r}")


def echoed(answer: Answer) -> str:
    """The text of an answer, be it whole or a stream that came to its end."""
    if answer.media_type == "application/json":
        return str(json.loads(answer.body)["choices"][0]["message"]["content"])
    *events, done, rest = answer.body.decode().split("\n\n")
    if (done, rest) != ("data: [DONE]", ""):
        raise Malformed(f"a stream without its end: {answer.body[-300:]!r}")
    choices = [json.loads(event.removeprefix("data: "))["choices"] for event in events]
    return "".join(each["delta"]["content"] for found in choices for each in found)
