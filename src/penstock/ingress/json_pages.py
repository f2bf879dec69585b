"""JSON answers and error pages of the Starlette side."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import new_id
from penstock.errors import Error
from penstock.ingress import error_response


def json_response(value: object) -> Response:
    """A JSON answer with our request id on it."""
    return Response(
        msgspec.json.encode(value),
        media_type="application/json",
        headers={"x-request-id": new_id()},
    )


def error_page(request: Request, error: Error) -> Response:
    """An error in the shape of the surface that was asked."""
    request_id = new_id()
    is_workers_ai = request.url.path.startswith("/client/v4")
    status, _ = error_response.status_and_number(error, is_workers_ai=is_workers_ai)
    headers = {name.decode(): value.decode() for name, value in error_response.headers(error)}
    headers["x-request-id"] = request_id
    return Response(
        error_response.body(error, request_id, is_workers_ai=is_workers_ai),
        status_code=status,
        media_type="application/json",
        headers=headers,
    )
