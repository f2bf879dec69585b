"""An engine that answers every chat with the first word of its prompt, and keeps what it received.

With a seed, it sends each answer in one of the forms that HTTP allows, cut into pieces anywhere,
and sometimes with stray bytes behind it. What it does depends on the seed and the word alone, not
on the order in which requests arrive.
"""

import asyncio
import json
import random
import re
import threading
from contextlib import suppress
from typing import Any

import msgspec
import uvloop
from tests.chaos.started import Started

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_STRAY = "stray-answer"
_PAUSES_SECONDS = (0.0, 0.0, 0.0005, 0.002)
_CUTS_MAX = 4
_LINE_BYTES_MAX = 2**20
_END_SECONDS = 10.0


class Received(msgspec.Struct, frozen=True):
    """One request as the engine got it."""

    head: bytes
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def word(self) -> str:
        """The first word of the prompt."""
        return str(self.fields["messages"][-1]["content"].split()[0])


class EchoEngine(Started):
    """`with EchoEngine() as engine:` serves on `url`, from a thread of its own."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()
        self._seed = seed
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.received: list[Received] = []
        # What came on a connection and is not a request with a length; must stay empty.
        self.malformed: list[bytes] = []
        self.strays_sent = 0

    def words(self) -> list[str]:
        """The first word of every prompt so far."""
        return [each.word for each in list(self.received)]

    def _start(self) -> None:
        self._stack.callback(self._loop.close)
        self._thread.start()
        self._stack.callback(self._thread.join)
        self._stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self._stack.callback(self._stop_serving)

    def _stop_serving(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, limit=_LINE_BYTES_MAX
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        async with asyncio.timeout(_END_SECONDS):
            while self._writers:  # noqa: ASYNC110 - each leaves by itself
                await asyncio.sleep(0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open after this request."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as ended:
            if ended.partial:
                self.malformed.append(ended.partial)
            return False
        if head.startswith(b"GET "):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return True
        lengths = _LENGTH.findall(head)
        if len(lengths) != 1 or not head.startswith(b"POST /v1/"):
            self.malformed.append(head)
            return False
        request = Received(head, await reader.readexactly(int(lengths[0])))
        self.received.append(request)
        return await self._answer(request, writer)

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        is_stream = bool(request.fields.get("stream"))
        if self._seed is None:
            writer.write(_plain(request.word, is_stream=is_stream))
            return True
        source = random.Random(f"{self._seed} {request.word}")
        data, keeps = _varied(request.word, source, is_stream=is_stream)
        stray = _stray(source) if keeps else b""
        self.strays_sent += bool(stray)
        for piece in cut(data, source, _CUTS_MAX)[:-1]:
            writer.write(piece)
            await asyncio.sleep(source.choice(_PAUSES_SECONDS))
            data = data[len(piece) :]
        # The answer's end and what strays behind it go in one write: were they two, the gateway
        # could have sent its next request in between, and no HTTP client can tell then.
        writer.write(data + stray)
        return keeps


def cut(data: bytes, source: random.Random, most: int) -> list[bytes]:
    """The data in up to `most` + 1 pieces, none of them empty."""
    count = min(source.randint(0, most), len(data) - 1)
    places = sorted(source.sample(range(1, len(data)), count))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def in_chunks(data: bytes, source: random.Random, *, extension: bytes = b"") -> bytes:
    """The data in chunks of any size, and the end of a chunked body without its last line."""
    pieces = cut(data, source, _CUTS_MAX)
    return b"".join(b"%x%b\r\n%b\r\n" % (len(each), extension, each) for each in pieces) + b"0\r\n"


def _plain(word: str, *, is_stream: bool) -> bytes:
    body, kind = _content(word, is_stream=is_stream)
    framing = b"content-length: %d" % len(body)
    if is_stream:
        framing = b"transfer-encoding: chunked"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%b\r\n\r\n%b" % (kind, framing, body)


def _varied(word: str, source: random.Random, *, is_stream: bool) -> tuple[bytes, bool]:
    """An answer in any valid form, and whether the connection may be used again."""
    body, kind = _content(word, is_stream=is_stream)
    lines = [b"content-type: " + kind, b"date: Tue, 10 Nov 2026 12:00:%02d GMT" % (len(word) % 60)]
    if source.random() < 0.3:
        lines.append(b"x-engine: %d" % source.randrange(10**9))
    how = source.choice(("length", "length", "length", "chunks", "extended", "trailers", "close"))
    if how == "length" and is_stream:
        how = "chunks"
    if how == "length":
        lines.append(b"content-length: %d" % len(body))
    elif how == "close":
        lines.append(b"connection: close")
    else:
        lines.append(b"transfer-encoding: chunked")
        body = in_chunks(body, source, extension=b";a=b" if how == "extended" else b"")
        body += b"x-trailer: %d\r\n\r\n" % len(body) if how == "trailers" else b"\r\n"
    source.shuffle(lines)
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", body]), how != "close"


def _stray(source: random.Random) -> bytes:
    """What follows an answer although nobody asked for it: mostly nothing."""
    if source.random() > 0.1:
        return b""
    answer = _plain(_STRAY, is_stream=source.random() < 0.5)
    return source.choice((answer, answer, answer[: len(answer) // 2], b"\r\n", b"stray", b"\0"))


def _content(word: str, *, is_stream: bool) -> tuple[bytes, bytes]:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    facts = {"id": "chatcmpl-echo", "created": 1, "model": "scripted"}
    if not is_stream:
        message = {"role": "assistant", "content": f"{word} said"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**facts, "object": "chat.completion", "choices": [choice], "usage": usage}
        return json.dumps(whole).encode(), b"application/json"
    events = []
    for delta, reason in (({"content": word}, None), ({"content": " said"}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        events.append({**facts, "object": "chat.completion.chunk", "choices": [choice]})
    events.append({**facts, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    told = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return (told + "data: [DONE]\n\n").encode(), b"text/event-stream; charset=utf-8"
