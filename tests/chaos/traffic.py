"""A client that asks and remembers what it heard, however the answer ends. One connection each."""

import asyncio
import json
import re
from typing import Any

import msgspec
from tests.integration.cells.raw_client import post_bytes

PATH = "/v1/chat/completions"
_TOKEN = b'"delta":{"content":'
_DONE = b"data: [DONE]\n\n"
_COST = re.compile(rb"^: cost-usd (\d+)\.(\d{9})$", re.MULTILINE)
_ANSWER_SECONDS_MAX = 60.0
# Who is told to come back later than this is told that the window is used up.
_SOON_SECONDS = 60


class Heard(msgspec.Struct, frozen=True):
    """What came of one request. Status 0: no answer; `is_whole`: it came to its proper end."""

    tag: str
    status: int = 0
    tokens: int = 0
    is_whole: bool = False
    cost_nanousd: int | None = None
    retry_after: int | None = None
    message: str = ""


class Received(msgspec.Struct, frozen=True):
    """One answer, its transfer coding taken off."""

    status: int
    headers: dict[str, str]
    body: bytes
    # Whether its last byte came. An event stream may still lack its proper end.
    is_whole: bool
    is_chunked: bool = False


async def ask(port: int, key: str, tag: str, body: dict[str, Any]) -> Heard:
    """Ask once. The tag goes along as the caller's own id of the request."""
    headers = {"connection": "close", "x-request-id": tag, "x-penstock-cost": "1"}
    return _heard(tag, await receive(port, post_bytes(PATH, body, key, headers=headers)))


async def receive(port: int, request: bytes) -> bytes:
    """Send a request that says `connection: close`; all that was received until the end."""
    data = bytearray()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
            try:
                writer.write(request)
                while more := await reader.read(2**16):
                    data += more
            finally:
                writer.close()
    except (OSError, TimeoutError):
        # Cut by a kill: what was received until then was received.
        pass
    return bytes(data)


async def may_go_on(heard: Heard, *, pause_seconds: float) -> bool:
    """Wait as an answer says before the next request; False when nothing is left in the window.

    After an answer that did not come, the gateway was killed or is starting: pause, and ask again.
    """
    if heard.status == 429:
        after = heard.retry_after
        if after is None or after > _SOON_SECONDS:
            return False
        await asyncio.sleep(after)
    elif heard.status != 200:
        await asyncio.sleep(pause_seconds)
    return True


def _heard(tag: str, data: bytes) -> Heard:
    answer = read_received(data)
    if answer is None:
        return Heard(tag)
    status, headers, rest = answer.status, answer.headers, answer.body
    if answer.is_chunked:
        return _heard_stream(tag, status, rest)
    is_whole = answer.is_whole
    if status != 200:
        after = headers.get("retry-after")
        message = rest.decode("utf-8", "replace")
        retry_after = None if after is None else int(after)
        return Heard(tag, status, 0, is_whole, retry_after=retry_after, message=message)
    if not is_whole:
        return Heard(tag, status)
    tokens = json.loads(rest)["usage"]["completion_tokens"]
    cost = headers.get("x-penstock-cost-usd", "").replace(".", "")
    return Heard(tag, status, tokens, is_whole, int(cost) if cost else None)


def read_received(data: bytes) -> Received | None:
    """The answer in these bytes, as far as it came; None if its head did not."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    if headers.get("transfer-encoding") != "chunked":
        return Received(status, headers, rest, len(rest) == int(headers["content-length"]))
    body = b"".join(_chunks(rest))
    return Received(status, headers, body, rest.endswith(b"0\r\n\r\n"), is_chunked=True)


def _heard_stream(tag: str, status: int, events: bytes) -> Heard:
    cost = _COST.search(events)
    return Heard(
        tag=tag,
        status=status,
        tokens=events.count(_TOKEN),
        is_whole=events.endswith(_DONE),
        cost_nanousd=None if cost is None else int(cost[1] + cost[2]),
        message=events[-300:].decode("utf-8", "replace") if b'"error"' in events else "",
    )


def _chunks(data: bytes) -> list[bytes]:
    """The parts of a chunked body, as far as they came."""
    parts = []
    at = 0
    while (line_end := data.find(b"\r\n", at)) > 0:
        size = int(data[at:line_end], 16)
        start = line_end + 2
        parts.append(data[start : start + size])
        at = start + size + 2
    return parts
