"""Serves every operation of administration over HTTP."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from penstock.console.acts import log_refused, run_logged
from penstock.console.operation import PREFIX, Operation
from penstock.console.operations import OPERATIONS
from penstock.console.operator_openapi import document
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.safety_headers import SafetyHeaders
from penstock.console.settings import ControlSettings
from penstock.console.sign_in import SignIn
from penstock.errors import (
    Error,
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    Overloaded,
)
from penstock.ingress.pages.json_pages import (
    RequestIds,
    error_page,
    json_response,
    on_crash,
    on_error,
)
from penstock.ingress.pages.page_body import decoded
from penstock.records.account import Role

logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


class OperatorPages:
    """Answers requests with an operator's or auditor's key, a bounded number at a time."""

    def __init__(self, rooms: OperatorRooms, sign_in: SignIn, settings: ControlSettings) -> None:
        self._rooms = rooms
        self._sign_in = sign_in
        self._at_once_max = settings.requests_at_once_max
        self._now_served = 0

    def routes(self) -> list[Route]:
        # Starlette takes the first route that matches: fixed paths come before `{id}`.
        ordered = sorted(OPERATIONS, key=lambda each: each.path.count("{"))
        return [
            Route(f"{PREFIX}{each.path}", self._endpoint(each), methods=[each.method])
            for each in ordered
        ]

    def _endpoint(self, operation: Operation[Any, Any]) -> Endpoint:
        async def serve(request: Request) -> Response:
            if self._now_served >= self._at_once_max:
                raise Overloaded("Too many requests at once.", retry_after_seconds=1)
            self._now_served += 1
            try:
                return await self._serve(operation, request)
            finally:
                self._now_served -= 1

        return serve

    async def _serve(self, operation: Operation[Any, Any], request: Request) -> Response:
        address = request.client.host if request.client else ""
        key = await self._sign_in.key_of(request.scope["headers"], address)
        rooms = msgspec.structs.replace(self._rooms, actor=key.id)
        if key.role is Role.AUDITOR and not operation.is_reading:
            await log_refused(operation, rooms, key.id, Forbidden.code)
            raise Forbidden("An auditor's key reads and changes nothing: use an operator's key.")
        asked: Any = await _read(operation, request)
        answer = await run_logged(operation, rooms, asked)
        if not operation.is_reading:
            logger.info(
                "operator changed the cell",
                extra={
                    "action": "operator_change",
                    "operation": operation.name,
                    "key": key.id,
                    "path": str(request.scope["path"]),
                },
            )
        return json_response(answer)


def build_operator_pages(
    pages: OperatorPages, console: Sequence[Route], lifespan: Lifespan[Starlette]
) -> Starlette:
    """Return the application of the listener: the API, and the console's pages."""

    async def openapi(_: Request) -> Response:
        return json_response(document())

    async def alive(_: Request) -> Response:
        return json_response({"status": "ok"})

    return Starlette(
        routes=[
            Route("/healthz", alive),
            Route(f"{PREFIX}/openapi.json", openapi),
            *pages.routes(),
            *console,
        ],
        middleware=[Middleware(RequestIds), Middleware(SafetyHeaders)],
        lifespan=lifespan,
        exception_handlers={Error: on_error, HTTPException: _on_http, Exception: on_crash},
    )


async def _read(operation: Operation[Any, Any], request: Request) -> object:
    """Return the question in a request; refuse unknown fields, and fields that occur twice."""
    query = request.query_params.multi_items()
    fields: dict[str, Any] = {}
    if operation.has_body:
        if query:
            raise InvalidRequest("This operation takes its fields in the body, not in the query.")
        fields = decoded(await _body(request) or b"{}", dict[str, Any])
    else:
        for name, value in query:
            if name in fields:
                raise InvalidRequest(f"`{name}` is given twice.", param=name)
            fields[name] = value
    for name in operation.path_fields:
        if name in fields:
            raise InvalidRequest(f"`{name}` is in the path already.", param=name)
        fields[name] = request.path_params[name]
    _check_texts(fields)
    try:
        return msgspec.convert(fields, operation.question, strict=operation.has_body)
    except msgspec.ValidationError as bad:
        raise _refusal(bad) from None


async def _body(request: Request) -> bytes:
    # The connection bounds the body's length and its time.
    try:
        return await request.body()
    except ClientDisconnect:
        raise InvalidRequest("The body did not come whole.") from None


def _check_texts(fields: Mapping[str, Any]) -> None:
    """Refuse texts that Postgres cannot store."""
    for name, value in fields.items():
        if not isinstance(value, str):
            continue
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"`{name}` is not UTF-8.", param=name) from None
        if "\0" in value:
            raise InvalidRequest(f"`{name}` has a NUL character.", param=name)


def _refusal(bad: msgspec.ValidationError) -> InvalidRequest:
    what, _, path = str(bad).partition(" - at `$.")
    name = path.rstrip("`") or (what.split("`")[1] if "`" in what else None)
    return InvalidRequest(str(bad), param=name)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return error_page(request, MethodNotAllowed())
    return error_page(request, NotFound())
