"""Which requests are hot, and what their path says: the surface, the account, the model."""

from enum import Enum, auto
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec

from penstock.errors import InvalidRequest, MalformedModel, NotFound
from penstock.ingress.settings import Settings

_OPENAI_CHAT: Final = b"/v1/chat/completions"
_FILES: Final = b"/v1/files"
_ACCOUNTS: Final = b"/client/v4/accounts/"
_CHAT_TAIL: Final = "/ai/v1/chat/completions"
_RUN: Final = "/ai/run"
_QUERY_FIELDS_MAX: Final = 100


class Surface(Enum):
    """Where a request came in; it decides the shape of answers and errors."""

    OPENAI = auto()
    WORKERS_CHAT = auto()
    WORKERS_RUN = auto()

    @property
    def is_workers_ai(self) -> bool:
        return self is not Surface.OPENAI


class Route(msgspec.Struct):
    """`account` is None where the path names none; `model` where the body must."""

    surface: Surface
    account: str | None = None
    model: str | None = None
    query: dict[str, str] = {}


_OPENAI_ROUTE: Final = Route(Surface.OPENAI)


def is_hot(method: bytes, target: bytes) -> bool:
    """Whether this request goes to the hot door. Runs before anything is parsed."""
    if method != b"POST":
        return False
    if target == _OPENAI_CHAT:
        return True
    path = target.partition(b"?")[0]
    if path == _OPENAI_CHAT:
        return True
    return path.startswith(_ACCOUNTS) and (b"/ai/run" in path or path.endswith(_CHAT_TAIL.encode()))


def page_bytes_max(target: bytes, settings: Settings) -> int:
    """How long the body of a request that is not hot may be.

    The page that takes files counts for itself, and answers one that is too large; what comes
    behind its answer is read for a while, so that the client gets to see it.
    """
    if target.startswith(_FILES):
        return 2 * settings.file_bytes_max + settings.body_bytes_max
    return settings.body_bytes_max


def surface_of(target: bytes) -> Surface:
    """The surface alone, for errors found before the path is read."""
    return Surface.WORKERS_RUN if target.startswith(b"/client/v4") else Surface.OPENAI


def find_route(target: bytes) -> Route:
    """Read a hot request's target. Model ids come with raw slashes and with `%2F`."""
    if target == _OPENAI_CHAT:
        return _OPENAI_ROUTE
    raw_path, _, raw_query = target.partition(b"?")
    query = _query(raw_query) if raw_query else {}
    if raw_path == _OPENAI_CHAT:
        return Route(Surface.OPENAI, query=query)
    path = raw_path[len(_ACCOUNTS) :].decode("latin-1")
    account, slash, rest = path.partition("/")
    rest = slash + rest
    account = unquote(account)
    if rest == _CHAT_TAIL:
        return Route(Surface.WORKERS_CHAT, account, query=query)
    if rest.rstrip("/") == _RUN:
        return Route(Surface.WORKERS_RUN, account, query=query)
    if rest.startswith(_RUN + "/"):
        return Route(Surface.WORKERS_RUN, account, _model(rest[len(_RUN) + 1 :]), query)
    raise NotFound


def _query(raw: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(raw.decode("latin-1"), max_num_fields=_QUERY_FIELDS_MAX))
    except ValueError:
        raise InvalidRequest(f"The query has more than {_QUERY_FIELDS_MAX} fields.") from None


def _model(raw: str) -> str:
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise MalformedModel from None
