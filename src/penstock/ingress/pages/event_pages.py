"""`GET /v1/events`: an account's events as server-sent events, resumable after any event."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from penstock.errors import AccountBlocked, Error, Forbidden, InvalidRequest, StoreUnavailable
from penstock.events import Event, Feed, Reader, openai_body
from penstock.ingress.pages.streamed_page import HEADERS, until_gone
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.records.account import AccountId

_KEEPALIVE: Final = b": keepalive\n\n"
_PLACE_DIGITS_MAX: Final = 18


class EventPages:
    """Streams events; a runtime key reads its own account's, an operator's names an account."""

    def __init__(self, reader: RequestReader, feed: Feed) -> None:
        self._reader = reader
        self._feed = feed

    def routes(self) -> list[Route]:
        return [Route("/v1/events", self.stream)]

    async def stream(self, request: Request) -> Response:
        account = await self.account(request)
        return _EventStream(self, request, self._feed, account)

    async def account(self, request: Request) -> AccountId:
        """Return the account to read; checked again while streaming, as keys may be revoked."""
        key = await self._reader.authenticate(CallerHeaders(request.scope["headers"]))
        named = request.query_params.get("account")
        if key.account is None:
            if not named or not named.isprintable():
                raise InvalidRequest(
                    "An operator key must say whose events: `?account=ID`.", param="account"
                )
            return AccountId(named)
        if named not in (None, key.account.id):
            raise Forbidden("This key sees its own account's events only.")
        if key.account.is_blocked:
            raise AccountBlocked
        return key.account.id


class _EventStream(Response):
    """Streams until the client leaves, the feed cuts it off, or its key loses access.

    The connection drops a client that does not read at all, as it drops every such client.
    """

    def __init__(self, pages: EventPages, request: Request, feed: Feed, account: AccountId) -> None:
        super().__init__()
        self._pages = pages
        self._request = request
        self._feed = feed
        self._account = account
        self._after = _place(request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.reader(self._account, self._after) as reader:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            await until_gone(self._write(reader, send), receive)
            await send({"type": "http.response.body", "body": b""})

    async def _write(self, reader: Reader, send: Send) -> None:
        body = b": connected\n\n"
        while True:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            if reader.is_cut or not await self._still_may():
                return
            try:
                events = await self._feed.next(reader)
            except StoreUnavailable:
                await asyncio.sleep(1)
                events = []
            body = b"".join(map(_written, events)) or _KEEPALIVE

    async def _still_may(self) -> bool:
        try:
            return await self._pages.account(self._request) == self._account
        except Error:
            return False


def _written(event: Event) -> bytes:
    head = f"id: {event.sequence}\nevent: {event.type}\ndata: ".encode()
    return head + openai_body(event) + b"\n\n"


def _place(request: Request) -> int | None:
    """Return the event to resume after: `Last-Event-ID`, sent by clients, or `starting_after`."""
    text = request.headers.get("last-event-id") or request.query_params.get("starting_after")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _PLACE_DIGITS_MAX):
        raise InvalidRequest(
            "`starting_after` and `Last-Event-ID` are the `id` of an event, a whole number.",
            param="starting_after",
        )
    return int(text)
