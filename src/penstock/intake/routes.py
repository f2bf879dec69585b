"""Reads a request's path: whether it is inference, its API surface, the account, the model."""

from enum import Enum, auto
from typing import Final
from urllib.parse import parse_qsl, unquote

from penstock.errors import InvalidRequest, MalformedModel, NotFound
from penstock.intake.large_reading import INLINE_BYTES_MAX, INLINE_ITEMS_BYTES_MAX
from penstock.records.request import Api

_OPENAI_CHAT: Final = b"/v1/chat/completions"
_MESSAGES: Final = b"/v1/messages"
_COMPACT: Final = b"/v1/responses/compact"
_ACCOUNTS: Final = b"/client/v4/accounts/"
_RUN: Final = "/ai/run"
# The same paths under `/v1` and under an account's `/ai/v1`.
_APIS: Final = {
    _OPENAI_CHAT: Api.CHAT,
    b"/v1/completions": Api.COMPLETIONS,
    b"/v1/embeddings": Api.EMBEDDINGS,
    _MESSAGES: Api.MESSAGES,
    b"/v1/responses": Api.RESPONSES,
    _COMPACT: Api.RESPONSES,
}
_QUERY_FIELDS_MAX: Final = 100
API_PATHS: Final = tuple(path.decode() for path in _APIS)
_NAMES: Final = {path: path.decode() for path in _APIS}
_ACCOUNT_NAME: Final = "/client/v4/accounts/{account_id}"


class Surface(Enum):
    """The API surface of a request, which decides the shape of answers and errors."""

    OPENAI = auto()
    WORKERS_V1 = auto()
    WORKERS_RUN = auto()

    @property
    def is_workers_ai(self) -> bool:
        return self is not Surface.OPENAI


class Wanted(Enum):
    """What the caller wants for a prompt: an answer, a summary to go on from, or a token count."""

    ANSWER = auto()
    COMPACTION = auto()
    COUNT = auto()


_NO_QUERY: Final[dict[str, str]] = {}


class RequestRoute:
    """What a target names. `account` is None if it names none; `model` if the body must.

    On `/ai/run` the model and the body decide which API it is.
    """

    def __init__(
        self,
        surface: Surface,
        api: Api = Api.CHAT,
        account: str | None = None,
        model: str | None = None,
        query: dict[str, str] = _NO_QUERY,
        wanted: Wanted = Wanted.ANSWER,
    ) -> None:
        self.surface = surface
        self.is_run = surface is Surface.WORKERS_RUN
        self.api = api
        self.account = account
        self.model = model
        self.query = query
        self.wanted = wanted
        may_have_items = self.is_run or api is Api.RESPONSES
        # Larger bodies are read in a thread.
        self.inline_bytes_max = INLINE_ITEMS_BYTES_MAX if may_have_items else INLINE_BYTES_MAX


_OPENAI_ROUTE: Final = RequestRoute(Surface.OPENAI)


def is_inference(method: bytes, target: bytes) -> bool:
    """Return whether a request goes to the inference endpoint, by method and path alone."""
    if method != b"POST":
        return False
    if target == _OPENAI_CHAT:
        return True
    path = target.partition(b"?")[0]
    if path in _APIS:
        return True
    if not path.startswith(_ACCOUNTS):
        return False
    _, _, rest = path[len(_ACCOUNTS) :].partition(b"/")
    return rest.startswith(b"ai/run") or (rest.startswith(b"ai/v1/") and rest[2:] in _APIS)


def surface_of(target: bytes) -> Surface:
    """Return the surface alone, for errors found before the path is read."""
    return Surface.WORKERS_RUN if target.startswith(b"/client/v4") else Surface.OPENAI


def path_meant(path: str) -> str:
    """Guess the path that a client with a wrong base URL meant; "" if unknown."""
    tails = {path.removeprefix("/v1"): path for path in (*API_PATHS, "/v1/models")}
    return next((whole for tail, whole in tails.items() if path.rstrip("/").endswith(tail)), "")


def is_messages(target: bytes) -> bool:
    """Return whether errors have Anthropic's shape, for those found before the path is read."""
    return target.startswith(_MESSAGES) and target.partition(b"?")[0] == _MESSAGES


def find_route(target: bytes) -> RequestRoute:
    """Parse the target of an inference request. Model ids come with raw slashes and with `%2F`."""
    if target == _OPENAI_CHAT:
        return _OPENAI_ROUTE
    raw_path, _, raw_query = target.partition(b"?")
    query = _query(raw_query) if raw_query else {}
    api = _APIS.get(raw_path)
    if api is not None:
        return RequestRoute(Surface.OPENAI, api, query=query, wanted=_wanted(raw_path))
    path = raw_path[len(_ACCOUNTS) :].decode("latin-1")
    account, slash, rest = path.partition("/")
    rest = slash + rest
    account = unquote(account)
    if rest.rstrip("/") == _RUN:
        return RequestRoute(Surface.WORKERS_RUN, account=account, query=query)
    if rest.startswith(_RUN + "/"):
        model = _model(rest[len(_RUN) + 1 :])
        return RequestRoute(Surface.WORKERS_RUN, account=account, model=model, query=query)
    api = _APIS.get(rest[3:].encode("latin-1")) if rest.startswith("/ai/v1/") else None
    if api is not None:
        return RequestRoute(Surface.WORKERS_V1, api, account, query=query, wanted=_wanted(raw_path))
    raise NotFound


def route_name(target: bytes) -> str:
    """Return the path of an inference request as it is documented: without ids and query."""
    path = target.partition(b"?")[0]
    name = _NAMES.get(path)
    if name is not None:
        return name
    _, _, rest = path[len(_ACCOUNTS) :].partition(b"/")
    name = _NAMES.get(rest[2:]) if rest.startswith(b"ai/v1/") else None
    return _ACCOUNT_NAME + (f"{_RUN}/{{model_name}}" if name is None else f"/ai{name}")


def _wanted(path: bytes) -> Wanted:
    return Wanted.COMPACTION if path.endswith(_COMPACT) else Wanted.ANSWER


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
