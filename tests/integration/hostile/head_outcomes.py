"""What comes of a request, so far as it must be the same each time the same bytes are sent."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.integration.hostile.hostile_shot import Answer, read_answer

# Longer than the gateway waits for the rest of a head or of a body: it answers 408 and closes.
SILENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.01
_LINE_BYTES_MAX = 2**20
_CLOSED = "closed"
_SILENT = "silent"
_VOLATILE_HEADERS = {
    "content-length", "date", "x-request-id", "cf-ai-req-id", "x-penstock-cost-usd",
}  # fmt: skip
_VOLATILE = re.compile(
    rb'"created":\d+|"usage":\{.*?\}\}?|: cost-usd \S+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
)
_LABELS = (
    "status", "outcome", "account", "key", "model", "session", "stream", "workflow",
    "caller_request", "path", "error", "attempts",
)  # fmt: skip


class Outcome(msgspec.Struct):
    """`told` is compared; `requests` are the gateway's ids of the answers, to find their lines."""

    told: list[Any]
    requests: list[str]


async def outcome_of(
    port: int, before: Sequence[bytes], pieces: Sequence[bytes], probe: bytes
) -> Outcome:
    """Send `before` and read its answers, then the pieces, then a plain request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LINE_BYTES_MAX)
    outcome = Outcome([], [])
    try:
        for request in before:
            writer.write(request)
            answer = await read_answer(reader)
            assert answer.status == 200, answer
        await _send(writer, pieces)
        if await _take(reader, outcome):
            await _send(writer, [probe])
            await _take(reader, outcome)
    finally:
        writer.transport.abort()
    return outcome


def with_labels(outcome: Outcome, lines: dict[str, dict[str, Any]]) -> list[Any]:
    """What was told, and what the log says of these requests."""
    found = [lines[request] for request in outcome.requests if request in lines]
    return [*outcome.told, *([line.get(label) for label in _LABELS] for line in found)]


async def _send(writer: asyncio.StreamWriter, pieces: Sequence[bytes]) -> None:
    for number, piece in enumerate(pieces):
        if number:
            await asyncio.sleep(_PAUSE_SECONDS)
        writer.write(piece)


async def _take(reader: asyncio.StreamReader, outcome: Outcome) -> bool:
    """Read one answer, or how there was none; whether another may follow."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            answer = await read_answer(reader)
    except TimeoutError:
        outcome.told.append(_SILENT)
        return False
    except (ConnectionError, asyncio.IncompleteReadError):
        outcome.told.append(_CLOSED)
        return False
    outcome.told.append(_said(answer))
    outcome.requests.append(answer.headers.get("x-request-id", ""))
    return not answer.is_closing


def _said(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    headers = {k: v for k, v in answer.headers.items() if k not in _VOLATILE_HEADERS}
    return answer.status, headers, _VOLATILE.sub(b"", answer.body)
