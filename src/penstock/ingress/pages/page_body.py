"""Reads the bodies that pages take: small ones strictly into structs, and bounded large ones."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from penstock.errors import BodyTooLarge, InvalidRequest, Overloaded
from penstock.records.account import Key
from penstock.wire.json_body import check_text

BODY_BYTES_MAX: Final = 64 * 1024
T = TypeVar("T")


async def read_struct(request: Request, kind: type[T]) -> T:
    """Decode the body as a `kind`; InvalidRequest names the invalid field."""
    body = bytearray()
    async for piece in body_pieces(request):
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise BodyTooLarge(f"The body is over {BODY_BYTES_MAX} bytes.")
    return decoded(bytes(body), kind)


async def body_pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield a body as it comes; InvalidRequest if its sender stops before its end."""
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise InvalidRequest("The body did not come whole.") from None


async def with_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a piece that was fetched before its answer began, and the rest."""
    yield first
    async for piece in rest:
        yield piece


def decoded(body: bytes, kind: type[T]) -> T:
    """Decode a body that was gathered as a `kind`; InvalidRequest names the invalid field."""
    check_text(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as bad:
        what, _, path = str(bad).partition(" - at `$.")
        raise InvalidRequest(str(bad), param=path.rstrip("`") or _missing(what)) from None
    except (msgspec.DecodeError, RecursionError) as bad:
        raise InvalidRequest(f"The body is not valid JSON: {bad}") from None


class BodySlots:
    """Bounds the requests of a page whose bodies may be as long as a chat's.

    The body budget does not count such a body while it is gathered. `what` names them in refusals.
    """

    def __init__(self, what: str, at_once_max: int, per_account_max: int) -> None:
        self._what = what
        self._at_once_max = at_once_max
        self._per_account_max = per_account_max
        self._held: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def held(self, key: Key) -> AsyncIterator[None]:
        """Hold one slot; Overloaded if there is none, or if the account has its share."""
        account = "" if key.account is None else key.account.id
        is_full = self._held.total() >= self._at_once_max
        if is_full or self._held[account] >= self._per_account_max:
            raise Overloaded(f"Too many {self._what} at once.", retry_after_seconds=1)
        self._held[account] += 1
        try:
            yield
        finally:
            self._held[account] -= 1
            if not self._held[account]:
                # A count of 0 would stay for every account that ever asked.
                del self._held[account]

    @staticmethod
    async def gather(request: Request) -> bytes:
        try:
            return await request.body()
        except ClientDisconnect:
            raise InvalidRequest("The body did not come whole.") from None


def _missing(what: str) -> str | None:
    """Return the field's name from `Object missing required field `name``."""
    return what.split("`")[1] if "required field `" in what else None
