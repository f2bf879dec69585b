"""Runs a Responses request whose response is stored, or that goes on from a stored one."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.admission import Hold
from penstock.errors import Error
from penstock.ingress.inference.stored_writer import StoredWriter
from penstock.ingress.inference.turn_writer import TurnWriter
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.records.price import Tier
from penstock.records.request import InferenceRequest, RequestEnd, RequestId
from penstock.serving.budget_fallback import BudgetFallback
from penstock.serving.request_path import RequestPath
from penstock.turns import StoredTurn, StoredTurns
from penstock.turns.foreground import AskedTurn, ForegroundTurns
from penstock.wire.apis.chat_to_response import ResponseComposer

if TYPE_CHECKING:
    from collections.abc import Coroutine

# To store what a caller that left has not waited for.
_STORE_SECONDS: Final = 10.0


class StoredWay:
    """Loads what goes before a request, runs it, and stores its response before its last byte."""

    def __init__(
        self,
        reader: RequestReader,
        turns: StoredTurns,
        path: RequestPath,
        fallback: BudgetFallback,
        foreground: ForegroundTurns,
    ) -> None:
        self._reader = reader
        self._turns = turns
        self._path = path
        self._fallback = fallback
        self._foreground = foreground

    async def begin(
        self, request_id: RequestId, opened: OpenedRequest, headers: CallerHeaders
    ) -> tuple[StoredTurn, InferenceRequest, Hold | None]:
        """Return the turn, the chat request that it became, and what was reserved for that."""
        if opened.state is not None and opened.state.is_background:
            # Refused before anything is reserved.
            self._reader.require_queue(opened.model, "background")
            headers.idempotency_key()
        turn = await self._turns.begin(request_id, opened)
        chat, tier = turn.opened, Tier.FLEX if turn.is_background else Tier.NOW
        if turn.tools is not None:
            turn.tools.chat, chat.turn = dict(chat.fields), request_id
        # A short request may go on from a long chain.
        size = len(chat.fields["messages"])
        try:
            request = await self._reader.read_by_size(
                size,
                lambda reader: reader.read_prompt(request_id, headers, chat, tier),
                opened.route.inline_bytes_max,
            )
            hold = None
            if chat.unread is not None and tier is Tier.NOW:
                turn.opened, request, hold = await self._fallback.admit(request, chat, headers)
        except BaseException:
            await self._turns.give_up(turn)
            raise
        return turn, request, hold

    async def run(
        self,
        turn: StoredTurn,
        request: InferenceRequest,
        writer: StoredWriter,
        end: RequestEnd,
        hold: Hold | None,
    ) -> None:
        """Serve the request; when this returns, the response is stored and can be reported."""
        await self._run(turn, request, writer, self._path.run(request, writer, end, hold), end)

    async def run_with_tools(
        self, turn: StoredTurn, asked: AskedTurn, writer: TurnWriter, end: RequestEnd
    ) -> None:
        """Serve a request whose tools run here; if it is kept, its row is there from the start."""
        if turn.keeps:
            await self._turns.write_begun(turn, asked.request, writer.turn.response)
        await self._run(turn, asked.request, writer, self._foreground.run(asked, writer, end), end)

    async def _run(
        self,
        turn: StoredTurn,
        request: InferenceRequest,
        writer: StoredWriter,
        serving: "Coroutine[Any, Any, None]",
        end: RequestEnd,
    ) -> None:
        composer = writer.composer
        try:
            await serving
        except BaseException as stopped:
            if end.first_token_seconds is None and not composer.response["output"]:
                await self._turns.give_up(turn)
                raise
            # The caller has seen its id.
            if isinstance(stopped, Error):
                composer.stop("failed", stopped.code, stopped.message)
            else:
                composer.stop("cancelled")
            with suppress(TimeoutError):
                async with asyncio.timeout(_STORE_SECONDS):
                    await self._store(turn, request, composer)
            raise
        composer.complete()
        try:
            await self._store(turn, request, composer)
        except asyncio.CancelledError:
            # The caller left at the very end: its response is complete, and billed.
            with suppress(TimeoutError):
                async with asyncio.timeout(_STORE_SECONDS):
                    await self._store(turn, request, composer)
            raise

    async def _store(
        self, turn: StoredTurn, request: InferenceRequest, composer: ResponseComposer
    ) -> None:
        """Store the response of a turn that keeps it, with what only later turns need of it."""
        if not turn.keeps:
            return
        response = composer.stored()
        await self._turns.end(turn, request, response)
        composer.response["store"] = response["store"]
