"""The client of one replica: streams a request, cancels it, reads health and load."""

import asyncio
import math
from typing import Final

import msgspec
from msgspec import Raw

from penstock.clock import Clock, TimerWheel
from penstock.engine.answer_framing import Receiver
from penstock.engine.answer_stream import AnswerStream
from penstock.engine.attempt import Attempt, AttemptLimits
from penstock.engine.connection import Connection
from penstock.engine.dialects import openai, vllm
from penstock.engine.dialects.engine_calls import CALLS
from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.load_header import read_load
from penstock.engine.named_events import MessagesEvents, NamedEvents, ResponsesEvents
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.plain_events import PlainEvents
from penstock.engine.pool import ConnectionPool
from penstock.engine.refusal import error_for
from penstock.engine.settings import EngineSettings
from penstock.engine.sink import Sink
from penstock.errors import Error, ReplicaUnreachable
from penstock.records.dialect import VLLM, health_path
from penstock.records.engine_load import EngineLoad
from penstock.records.replica import Replica, key_for
from penstock.records.request import Api, InferenceRequest
from penstock.records.tally import Tally
from penstock.wire.engine_usage import read_token_count

_CHAT: Final = Api.CHAT
_ONE_WRITE_BYTES: Final = 16 * 1024
_SMALL_BYTES_MAX: Final = 64 * 1024
# Where vLLM counts the tokens of a prompt, by the API that the prompt is in.
_COUNT_PATHS: Final = {Api.MESSAGES: "/v1/messages/count_tokens", Api.CHAT: "/tokenize"}
# Reading a long prompt takes an engine a second or two; while it is busy, longer.
_COUNT_SECONDS: Final = 30.0
# How often an engine's load report is read at most, and the age at which it is dropped.
_LOAD_EVERY_SECONDS: Final = 0.1
_LOAD_KEPT_SECONDS: Final = 0.5
_NAMED_EVENTS: dict[Api, type[NamedEvents]] = {
    Api.MESSAGES: MessagesEvents,
    Api.RESPONSES: ResponsesEvents,
}


class ReplicaClient:
    """Connections to one replica, and what was learned from its answers."""

    def __init__(
        self, replica: Replica, settings: EngineSettings, wheel: TimerWheel, clock: Clock
    ) -> None:
        self.replica = replica
        self._is_vllm = replica.dialect == VLLM
        self._settings = settings
        self._event_bytes_max = settings.event_bytes_max
        self._monotonic = clock.monotonic
        self._fingerprint = Fingerprint()
        self._served_name = Raw(msgspec.json.encode(replica.served_name))
        self._pool = ConnectionPool(replica.url, settings, clock)
        key = key_for(replica, settings.api_keys)
        credentials = f"authorization: Bearer {key}\r\n" if key else ""
        self._headers = (
            f" HTTP/1.1\r\nhost: {self._pool.host_header}\r\n{credentials}"
            "content-type: application/json\r\nendpoint-load-metrics-format: JSON\r\n"
        )
        self._starts = {
            api: f"POST {self._pool.path}{call.path}{self._headers}".encode()
            for api, call in CALLS.items()
        }
        # Kept apart, because hashing an enum's member calls the interpreter.
        self._chat_start = self._starts[Api.CHAT]
        self._line = AttemptLimits(settings, wheel, clock)
        self._in_flight = 0
        self._reads_seen = -1
        self._silent_since = 0.0
        self._load: EngineLoad | None = None
        self._load_at = -math.inf

    @property
    def open_connections(self) -> int:
        return self._pool.open_connections

    @property
    def reads(self) -> int:
        """The number of reads from the replica, without those of probes."""
        return self._line.reads

    def is_silent(self, now: float) -> bool:
        """Return whether requests run and nothing came for `silent_seconds`; call it often.

        The cause may be a long prompt, or callers that read slowly: only a probe shows.
        """
        if not self._in_flight or self._line.reads != self._reads_seen:
            self._reads_seen, self._silent_since = self._line.reads, now
            return False
        return now - self._silent_since >= self._settings.silent_seconds

    def take_load(self, now: float) -> EngineLoad | None:
        """Return the load of the engine's last report; once it is old, an empty load, one time.

        None means that there is no report.
        """
        load = self._load
        if load is not None and now - self._load_at > _LOAD_KEPT_SECONDS:
            self._load = None
            return EngineLoad()
        return load

    def attempt(
        self, request: InferenceRequest, sink: Sink, tally: Tally, cached_estimate: int = 0
    ) -> Attempt:
        """Return a new attempt for `run`; its usage is known when that ends, however it ends.

        `cached_estimate` is the part of the prompt's estimate that may be cached here.
        """
        estimate = OutputEstimate(
            request.terms.prompt_tokens_estimate, cached_estimate, request.terms.output_tokens_max
        )
        stream = self._stream(request, estimate) if request.prompt.is_stream else None
        return Attempt(self._line, request.api, sink, tally, stream, estimate)

    def _stream(self, request: InferenceRequest, estimate: OutputEstimate) -> AnswerStream:
        named = None if request.api is _CHAT else _NAMED_EVENTS.get(request.api)
        if named is not None:
            return named(self._event_bytes_max, estimate)
        if not self._is_vllm:
            return PlainEvents(
                wants_usage=request.prompt.wants_usage,
                event_bytes_max=self._event_bytes_max,
                estimate=estimate,
            )
        return EventStream(
            wants_usage=request.prompt.wants_usage,
            wants_continuous_usage=request.prompt.wants_continuous_usage,
            choices=request.prompt.choices,
            fingerprint=self._fingerprint,
            event_bytes_max=self._event_bytes_max,
            estimate=estimate,
        )

    async def run(self, request: InferenceRequest, attempt: Attempt) -> None:
        """Run the request here. Raises the error it ended with; cancelling stops the engine."""
        if not self._in_flight:
            # Silence begins with the request, not with the last answer.
            self._reads_seen = -1
        self._in_flight += 1
        try:
            pieces = self._pieces(request, attempt.traceparent)
            connection = self._pool.take_idle()
            if connection is not None:
                await self._run_on(connection, attempt, pieces)
            # A kept connection may have been closed by the engine just as we wrote to it.
            if connection is None or attempt.restart():
                await self._run_on(await self._pool.connect(), attempt, pieces)
            attempt.check()
        finally:
            self._in_flight -= 1
        if attempt.load:
            self._note_load(attempt.load)

    async def _run_on(
        self, connection: Connection, attempt: Attempt, pieces: list[bytes | Raw]
    ) -> None:
        try:
            await attempt.start(connection, pieces)
        finally:
            attempt.stop()

    def _pieces(self, request: InferenceRequest, traceparent: str | None) -> list[bytes | Raw]:
        """Return head and body: one piece if small; the prompt of a large request is not copied."""
        if self._is_vllm:
            pieces = vllm.request_body(request, self._served_name)
        else:
            pieces = openai.request_body(request, self._served_name)
        length = 0
        for piece in pieces:
            length += len(memoryview(piece))
        facts = f"x-request-id: {request.id}\r\ncontent-length: {length}\r\n\r\n"
        if traceparent is not None:
            facts = traceparent + facts
        start = self._chat_start if request.api is _CHAT else self._starts[request.api]
        pieces[0] = b"".join((start, facts.encode(), pieces[0]))
        return [b"".join(pieces)] if length < _ONE_WRITE_BYTES else pieces

    async def is_healthy(self) -> bool:
        """Whether the engine's health path answers 200 within `probe_timeout_seconds`."""
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancel.
            async with asyncio.timeout(self._settings.probe_timeout_seconds):
                return await self._get(health_path(self.replica.dialect)) == 200
        except (TimeoutError, Error):
            return False

    async def _get(self, path: str) -> int:
        head = f"GET {self._pool.path}{path}{self._headers}\r\n".encode()
        connection = self._pool.take_idle()
        if connection is not None:
            try:
                return (await self._ask(connection, [head])).status
            except ReplicaUnreachable:
                # The engine closed it just as we wrote to it: that does not show its health.
                pass
        return (await self._ask(await self._pool.connect(), [head])).status

    async def _ask(self, connection: Connection, pieces: list[bytes | Raw]) -> "_SmallAnswer":
        answer = _SmallAnswer()
        connection.send(pieces, answer)
        try:
            await answer.end
            return answer
        finally:
            if not answer.is_complete:
                connection.abort()

    async def count_tokens(self, request: InferenceRequest) -> int | None:
        """Return the engine's count of a prompt of Messages or chat; None if it cannot count."""
        if not self._is_vllm:
            return None
        body = b"".join(vllm.request_body(request, self._served_name))
        path = _COUNT_PATHS[request.api]
        head = f"POST {self._pool.path}{path}{self._headers}content-length: {len(body)}"
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                # A new connection: a kept one may be closed by the engine just now.
                connection = await self._pool.connect()
                answer = await self._ask(connection, [f"{head}\r\n\r\n".encode(), body])
        except TimeoutError:
            return None
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise error_for(answer.status, bytes(answer.body))
        return read_token_count(bytes(answer.body))

    def _note_load(self, header: bytes) -> None:
        now = self._monotonic()
        if now - self._load_at < _LOAD_EVERY_SECONDS:
            return
        self._load_at = now
        self._load = read_load(header) or self._load

    def close(self) -> None:
        """Close idle connections; requests in flight run to their end."""
        self._pool.close()


class _SmallAnswer(Receiver):
    """Receives an answer that is not relayed; of a long one it keeps the beginning."""

    def __init__(self) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_complete = False
        self.status = 0
        self.body = bytearray()

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del headers
        self.status = status

    def on_body(self, data: bytes) -> None:
        self.body += data[: _SMALL_BYTES_MAX - len(self.body)]

    def on_read_end(self) -> None: ...

    def on_complete(self) -> None:
        self.is_complete = True
        if not self.end.done():
            self.end.set_result(None)

    def on_lost(self, error: Error, *, answered: bool) -> None:
        del answered
        if not self.end.done():
            self.end.set_exception(error)
