"""A request whose body is split: its account, its model, and whether it is live or flex work."""

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.intake.caller_headers import TRUE, CallerHeaders
from penstock.intake.grant_cache import CachedGrant
from penstock.intake.routes import RequestRoute
from penstock.records.request import Api
from penstock.wire.apis.prompt_request import OPTIONS
from penstock.wire.apis.queued import wants_queue
from penstock.wire.apis.response_object import Response
from penstock.wire.json_body import Field, Fields

if TYPE_CHECKING:
    from penstock.contracts.deciding import ContractDecision
    from penstock.wire.apis.server_tools import ServerTools
    from penstock.wire.apis.stored_state import StateWish
    from penstock.wire.prompt.parsed_body import ParsedBody

_SERVICE_TIER: Final = Field("service_tier", msgspec.json.Decoder(str | None), None)


class Delivery(Enum):
    """How the caller of a flex request wants to get its answer."""

    # Workers AI's `queueRequest`: the caller gets an id at once, and polls for the answer.
    QUEUE = auto()
    # `cf-aig-async`: the same, with the id as a `taskId`.
    TASK = auto()
    # `Prefer: respond-async`: the answer if it comes soon, else the job.
    PREFER = auto()
    # `service_tier: "flex"`: the caller waits for the job, and gets the answer in place.
    IN_PLACE = auto()


class ComposedRequest:
    """What the answer to a Responses request that is served as chat repeats of it.

    `kept` are the messages that the answer of a compaction begins with; None for other requests.
    """

    def __init__(self, echo: Response, kept: list[Raw] | None) -> None:
        self.echo = echo
        self.kept = kept


class OpenedRequest:
    """What is known before the prompt itself is read. `delivery` is None for a live request."""

    def __init__(
        self,
        route: RequestRoute,
        granted: CachedGrant,
        fields: Fields,
        api: Api,
        body_bytes: int,
        delivery: Delivery | None = None,
    ) -> None:
        self.route = route
        self.granted = granted
        self.model = granted.model
        self.grant = granted.grant
        self.account = granted.account
        self.fields = fields
        self.api = api
        self.body_bytes = body_bytes
        self.delivery = delivery
        # What a Responses request reads or writes of stored state; None once that is loaded.
        self.state: StateWish | None = None
        # The tools of a Responses request that run here; None if it has none.
        self.tools: ServerTools | None = None
        # The turn that this request is a part of, and what its earlier parts were charged.
        self.turn = ""
        self.spent_nanousd = 0
        # The session that it belongs to if its caller names none, such as its chain of responses.
        self.session = ""
        # The Responses request that this chat request was made of; None if the caller sent it so.
        self.composed: ComposedRequest | None = None
        # What the contract of its workflow decided; None if no contract binds it.
        self.contract: ContractDecision | None = None
        # The names by which contracts know the functions of tools that run here; None if none do.
        self.tool_names: dict[str, str] | None = None
        # The fields as they are before the prompt is read, if its contract has a cheaper model for
        # when money is short; None otherwise.
        self.unread: Fields | None = None
        # A chat's split body, until the prompt is read.
        self.parsed: ParsedBody | None = None

    def name_tool(self, function: str, name: str) -> None:
        """Note the name by which contracts know the function of a tool that runs here."""
        if self.tool_names is None:
            self.tool_names = {}
        self.tool_names[function] = name

    def with_fields(self, fields: Fields) -> "OpenedRequest":
        """Return a copy with other fields, such as one of several requests in a body."""
        copy = OpenedRequest(
            self.route, self.granted, fields, self.api, self.body_bytes, self.delivery
        )
        copy.contract, copy.tool_names = self.contract, self.tool_names
        return copy

    def fallen_back(self, granted: CachedGrant, reason: str) -> "OpenedRequest":
        """Return a copy that is to be read for the cheaper model, by its own grant."""
        assert self.unread is not None, "only what may fall back is read twice"
        assert self.contract is not None, "a contract has the cheaper model"
        copy = OpenedRequest(
            self.route, granted, dict(self.unread), self.api, self.body_bytes, self.delivery
        )
        copy.state, copy.tools, copy.composed = self.state, self.tools, self.composed
        copy.turn, copy.spent_nanousd, copy.session = self.turn, self.spent_nanousd, self.session
        copy.contract = self.contract.fallen_back(granted.model, reason)
        copy.tool_names = self.tool_names
        return copy


def delivery_of(route: RequestRoute, headers: CallerHeaders, fields: Fields) -> Delivery | None:
    """Return a flex request's delivery; None for live requests, after only a few lookups."""
    if (
        not route.is_run
        and "service_tier" not in fields
        and "options" not in fields
        and not route.query
        and not headers.has_preference
    ):
        return None
    if route.is_run:
        if wants_queue(fields) or _asks_for_queue(route, fields):
            return Delivery.QUEUE
        if headers.wants_task():
            return Delivery.TASK
    elif _asks_for_queue(route, fields):
        raise InvalidRequest(
            '`queueRequest` is for `/ai/run`: here send `service_tier: "flex"`, or the header '
            "`Prefer: respond-async`.",
            param="queueRequest",
        )
    if headers.preference() is not None:
        return Delivery.PREFER
    if "service_tier" in fields and _SERVICE_TIER.read(fields) == "flex":
        return Delivery.IN_PLACE
    return None


def _asks_for_queue(route: RequestRoute, fields: Fields) -> bool:
    """Return whether the query or the body's options ask for the queue."""
    query = route.query
    if query and query.get("queueRequest", "").lower() in TRUE:
        return True
    if "options" not in fields:
        return False
    options = OPTIONS.read(fields)
    return options is not None and bool(options.queue_request)
