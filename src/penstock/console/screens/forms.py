"""Reads what browsers send: the cookie, the address's parameters, and the fields of a form."""

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from penstock.console.screens.safety_headers import ROOT
from penstock.errors import InvalidRequest

_FIELDS_MAX: Final = 100
_ADDRESS_CHARS_MAX: Final = 4096
_HOME: Final = f"{ROOT}/"


def cookie_of(request: Request, name: str) -> str:
    """Return a cookie's value; other programs of this host may have set any others beside it."""
    found = ""
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            given, _, value = pair.partition("=")
            if given.strip() == name:
                found = value.strip()
    return found


def is_from_another_site(request: Request) -> bool:
    """Return whether another site led the browser here, which then sends no SameSite cookie."""
    return request.headers.get("sec-fetch-site") == "cross-site"


def read_query(request: Request) -> list[tuple[str, str]]:
    """Return the parameters of an address that have a value, in their order."""
    given = request.scope["query_string"]
    pairs = _pairs(bytes(given), "This address cannot be read.")
    return [(name, value) for name, value in pairs if value]


async def read_form(request: Request) -> dict[str, str]:
    """Return a form's fields, each at most once. The connection bounds the body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest("A form is expected.")
    try:
        body = await request.body()
    except ClientDisconnect:
        raise InvalidRequest("The form did not come whole.") from None
    problem = "This form cannot be read."
    pairs = _pairs(body, problem)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidRequest(problem)
    return fields


def own_page(path: str) -> str:
    """Return the address of a page of the console; whatever else was given is its first page."""
    is_ours = path.startswith(_HOME) and "\\" not in path and path.isprintable()
    return path if is_ours and len(path) <= _ADDRESS_CHARS_MAX else _HOME


def _pairs(encoded: bytes, problem: str) -> list[tuple[str, str]]:
    """Decode pairs; refuse too many, and texts that are not UTF-8 or that Postgres cannot store."""
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"), True, max_num_fields=_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise InvalidRequest(problem) from None
    if any("\0" in name or "\0" in value for name, value in pairs):
        raise InvalidRequest(problem)
    return pairs
