"""Serves background responses: queued as jobs, read again from any event on, and cancelled.

A reader waits for the response's job, which has the response's id; the transaction that ends the
job ends the response. So any gateway serves any reader, and one that was cut off goes on elsewhere.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import Aborted, Error, InvalidRequest, Refused, StoreUnavailable
from penstock.ingress.http.exchange import JSON, Exchange
from penstock.ingress.inference.api_shapers import DONE
from penstock.ingress.jobs.job_waits import JobWaits
from penstock.ingress.settings import IngressSettings
from penstock.jobs.submission import JobDesk
from penstock.records.account import AccountId
from penstock.records.job import Door, JobId, JobState, Submission
from penstock.records.request import InferenceRequest
from penstock.sessions import ResponseBook, ResponseId, StoredResponse
from penstock.sessions.response_ids import shown
from penstock.turns import BackgroundResponses, StoredTurn, StoredTurns
from penstock.turns.stored_turns import new_response_of
from penstock.wire.apis.response_events import response_events
from penstock.wire.apis.response_object import Response, new_response

_KEEPALIVE: Final = b": keepalive\n\n"
# How soon a reader notices that this worker stops.
_LOOK_SECONDS: Final = 1.0


class BackgroundRooms(msgspec.Struct, frozen=True):
    """The parts of other rooms that background responses need."""

    desk: JobDesk
    waits: JobWaits
    turns: StoredTurns
    responses: BackgroundResponses
    book: ResponseBook


class BackgroundEndpoint:
    """Queues, follows and cancels background responses."""

    def __init__(self, rooms: BackgroundRooms, settings: IngressSettings, clock: Clock) -> None:
        self._desk = rooms.desk
        self._waits = rooms.waits
        self._turns = rooms.turns
        self._responses = rooms.responses
        self._book = rooms.book
        self._settings = settings
        self._now = clock.now
        self._is_ending = False

    async def submit(
        self, turn: StoredTurn, request: InferenceRequest, exchange: Exchange, headers: bytes
    ) -> None:
        """Queue a response, and answer with it or with its events."""
        id, response = await self._queued(turn, request, exchange.caller.idempotency_key())
        if not request.prompt.is_stream:
            exchange.answer(200, JSON + headers, msgspec.json.encode(response))
            return
        try:
            async with aclosing(self.follow(request.account, id, -1)) as events:
                async for piece in events:
                    if exchange.is_started:
                        exchange.write(piece)
                    else:
                        exchange.start_stream(headers, piece, is_chunked=exchange.speaks_chunked)
        except Error:
            if not exchange.is_started:
                raise
            # Cut without an end mark: the client goes on with `starting_after`.
        exchange.end_stream()

    async def follow(self, account: AccountId, id: ResponseId, after: int) -> AsyncGenerator[bytes]:
        """Yield the events after number `after`, and comments between them, until the last one."""
        with self._waits.place(account):
            stored = await self._book.find(account, id)
            silent = 0.0
            while True:
                events = response_events(stored.response)
                if events[after + 1 :]:
                    yield b"".join(events[after + 1 :])
                    after, silent = len(events) - 1, 0.0
                if stored.has_ended:
                    yield DONE
                    return
                while not stored.has_ended:
                    if self._is_ending:
                        raise Aborted
                    is_ended = await self._waits.wait(JobId(id), _LOOK_SECONDS) is not None
                    silent += _LOOK_SECONDS
                    if is_ended or silent >= self._settings.keepalive_seconds:
                        yield _KEEPALIVE
                        silent = 0.0
                        stored = await self._found_again(account, id, stored)

    async def find(self, account: AccountId, id: ResponseId) -> Response:
        """Return a response as it stands; `in_progress` if its job runs."""
        stored = await self._book.find(account, id)
        if not stored.has_ended:
            job = await self._desk.find(account, JobId(id))
            if job is not None and job.state is JobState.RUNNING:
                stored.response["status"] = "in_progress"
        return stored.response

    async def cancel(self, account: AccountId, id: ResponseId) -> Response:
        """Cancel a background response; one that has ended stays as it is."""
        stored = await self._book.find(account, id)
        if not stored.is_background:
            raise InvalidRequest("Only a background response can be cancelled.")
        if not stored.has_ended:
            await self._desk.cancel(account, JobId(id))
        return await self.find(account, id)

    async def delete(self, account: AccountId, id: ResponseId) -> None:
        """Delete a response; one that is not ended is cancelled first."""
        stored = await self._book.find(account, id)
        if not stored.has_ended:
            await self._desk.cancel(account, JobId(id))
        await self._book.delete(account, id)

    def end_all(self) -> None:
        """Cut all readers: a stopping worker waits for its answers, and these may take hours."""
        self._is_ending = True

    async def _queued(
        self, turn: StoredTurn, request: InferenceRequest, idempotency_key: str | None
    ) -> tuple[ResponseId, Response]:
        """Queue a response in one transaction with its job; return it, or the one of this key."""
        assert turn.opened.composed is not None, "what is stored is composed"
        response = {
            **new_response(
                shown(ResponseId(request.id)),
                int(request.terms.asked_at),
                request.model.id,
                turn.opened.composed.echo,
            ),
            "status": "queued",
            "background": True,
            "service_tier": "flex",
        }
        submission = Submission(
            account=request.account,
            key=request.key,
            model=request.model.id,
            door=Door.RESPONSES,
            deadline=self._now() + self._settings.job_seconds_max,
            weight=turn.opened.account.flex_weight,
        )
        new = new_response_of(turn, request, response)
        try:
            id = await self._responses.submit(self._desk, submission, request, new, idempotency_key)
        except Refused:
            await self._turns.give_up(turn)
            raise
        except BaseException:
            # It may or may not have reached Postgres. Without a key nobody can come back for it.
            if idempotency_key is None:
                self._waits.give_up(request.account, JobId(request.id))
            await self._turns.give_up(turn)
            raise
        if id == new.id:
            return id, response
        await self._turns.give_up(turn)
        return id, await self.find(request.account, id)

    async def _found_again(
        self, account: AccountId, id: ResponseId, stored: StoredResponse
    ) -> StoredResponse:
        try:
            statuses = await self._book.statuses([id])
            if statuses.get(id) == stored.status:
                return stored
            return await self._book.find(account, id)
        except StoreUnavailable:
            # The reader goes on waiting.
            return stored
