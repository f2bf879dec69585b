"""Reads the small JSON bodies that pages take, strictly, into their structs."""

from typing import Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.errors import BodyTooLarge, InvalidRequest
from penstock.wire.json_body import check_text

BODY_BYTES_MAX: Final = 64 * 1024
T = TypeVar("T")


async def read_struct(request: Request, kind: type[T]) -> T:
    """Decode the body as a `kind`; InvalidRequest names the invalid field."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise BodyTooLarge(f"The body is over {BODY_BYTES_MAX} bytes.")
    except ClientDisconnect:
        raise InvalidRequest("The body did not come whole.") from None
    check_text(bytes(body))
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as bad:
        what, _, path = str(bad).partition(" - at `$.")
        raise InvalidRequest(str(bad), param=path.rstrip("`") or _missing(what)) from None
    except (msgspec.DecodeError, RecursionError) as bad:
        raise InvalidRequest(f"The body is not valid JSON: {bad}") from None


def _missing(what: str) -> str | None:
    """Return the field's name from `Object missing required field `name``."""
    return what.split("`")[1] if "required field `" in what else None
