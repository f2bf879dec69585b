"""JSON answers and error pages of the Starlette pages, and the request id on each answer."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.clock import new_id
from penstock.errors import Error, InternalError
from penstock.ingress import error_response

_ID = "penstock_request_id"


class RequestIds:
    """Adds the request id to every answer of the pages, preflights and redirects included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[_ID] = new_id()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_id_headers(scope, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)


def json_response(value: object) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(value), media_type="application/json")


def error_page(request: Request, error: Error) -> Response:
    """Return an error in the shape of the API surface that was called."""
    request_id = request.scope.get(_ID) or new_id()
    is_workers_ai = _is_workers_ai(request.scope)
    status, _ = error_response.status_and_number(error, is_workers_ai=is_workers_ai)
    headers = {name.decode(): value.decode() for name, value in error_response.headers(error)}
    if str(request.scope["path"]).startswith("/v1/messages"):
        body = error_response.messages_body(error, request_id)
    else:
        body = error_response.body(error, request_id, is_workers_ai=is_workers_ai)
    return Response(
        body,
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


def crash_page(request: Request, error: Error) -> Response:
    """Return an error page with its request id: crashes are handled outside all middleware."""
    page = error_page(request, error)
    page.raw_headers += _id_headers(request.scope, request.scope.get(_ID) or new_id())
    return page


async def on_error(request: Request, error: Exception) -> Response:
    """Answer a page's own error: Starlette's handler for it."""
    assert isinstance(error, Error)
    return error_page(request, error)


async def on_crash(request: Request, _: Exception) -> Response:
    """Answer a bug: Starlette's handler for every other exception."""
    return crash_page(request, InternalError())


def _is_workers_ai(scope: Scope) -> bool:
    # Not `request.url`: Starlette builds it with the Host header, which may be invalid.
    return str(scope["path"]).startswith("/client/v4")


def _id_headers(scope: Scope, request_id: str) -> list[tuple[bytes, bytes]]:
    headers = [(b"x-request-id", request_id.encode())]
    if _is_workers_ai(scope):
        headers.append((b"cf-ai-req-id", request_id.encode()))
    return headers
