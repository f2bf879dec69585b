"""Serves background responses: queued as jobs, read again from any event on, and cancelled.

A reader waits for the response's job, which has the response's id; the transaction that ends the
job ends the response. So any gateway serves any reader, and one that was cut off goes on elsewhere.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
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
from penstock.sessions import ResponseBook, ResponseId
from penstock.sessions.response_book import QUEUED
from penstock.sessions.response_ids import shown
from penstock.turns import BackgroundResponses, StoredTurn, StoredTurns
from penstock.turns.stored_turns import new_response_of
from penstock.wire.apis.response_events import response_events
from penstock.wire.apis.response_object import Response, new_response

_KEEPALIVE: Final = b": keepalive\n\n"
# How soon a reader notices that this worker stops.
_LOOK_SECONDS: Final = 1.0
# What every reader gets at once.
_QUEUED_EVENTS: Final = 2


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
        key = exchange.caller.idempotency_key()
        if not request.prompt.is_stream:
            _, response = await self._queued(turn, request, key)
            exchange.answer(200, JSON + headers, msgspec.json.encode(response))
            return
        # The reader's place first: nobody could read what is queued without one.
        with self._waits.place(request.account):
            id, response = await self._queued(turn, request, key)
            first = b"".join(response_events(response)[:_QUEUED_EVENTS])
            exchange.start_stream(headers, first, is_chunked=exchange.speaks_chunked)
            # Cut without an end mark if it cannot go on: the client resumes with `starting_after`.
            with suppress(Error):
                events = self._follow(request.account, id, _QUEUED_EVENTS - 1)
                async with aclosing(events):
                    async for piece in events:
                        exchange.write(piece)
        exchange.end_stream()

    async def follow(self, account: AccountId, id: ResponseId, after: int) -> AsyncGenerator[bytes]:
        """Yield the events after number `after`, and comments between them, until the last one."""
        with self._waits.place(account):
            async with aclosing(self._follow(account, id, after)) as events:
                async for piece in events:
                    yield piece

    async def _follow(
        self, account: AccountId, id: ResponseId, after: int
    ) -> AsyncGenerator[bytes]:
        while True:
            # Nothing is kept while it waits: a response may be large, and many may read it.
            pieces, has_ended = await self._events_after(account, id, after)
            if pieces:
                after += len(pieces)
                yield b"".join(pieces)
            if has_ended:
                yield DONE
                return
            async for comment in self._until_changed(id):
                yield comment

    async def _events_after(
        self, account: AccountId, id: ResponseId, after: int
    ) -> tuple[list[bytes], bool]:
        stored = await self._book.find(account, id)
        return response_events(stored.response)[after + 1 :], stored.has_ended

    async def _until_changed(self, id: ResponseId) -> AsyncGenerator[bytes]:
        """Yield comments, now and then, until the response is no longer queued."""
        silent = 0.0
        while True:
            if self._is_ending:
                raise Aborted
            is_ended = await self._waits.wait(JobId(id), _LOOK_SECONDS) is not None
            silent += _LOOK_SECONDS
            if is_ended or silent >= self._settings.keepalive_seconds:
                yield _KEEPALIVE
                silent = 0.0
                # The reader goes on waiting while Postgres is away.
                with suppress(StoreUnavailable):
                    if (await self._book.statuses([id])).get(id) != QUEUED:
                        return

    async def find(self, account: AccountId, id: ResponseId) -> Response:
        """Return a response as it stands; `in_progress` if its job runs."""
        stored = await self._book.find(account, id)
        if stored.is_background and not stored.has_ended:
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
        if stored.is_background and not stored.has_ended:
            await self._desk.cancel(account, JobId(id))
        await self._book.delete(account, id)
        if stored.is_background:
            # It has the prompt and the answer too.
            await self._desk.delete(account, JobId(id))

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
            # It may or may not have reached Postgres. Without a key nobody can come back for it;
            # with one its conversation stays its own, or is free when the tenure ends by itself.
            if idempotency_key is None:
                self._waits.give_up(request.account, JobId(request.id))
                await self._turns.give_up(turn)
            else:
                self._turns.drop(turn)
            raise
        if id == new.id:
            return id, response
        await self._turns.give_up(turn)
        return id, await self.find(request.account, id)
