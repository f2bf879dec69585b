"""A body that was opened: whose it is, for which model, and whether it is wanted now or later."""

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.ingress.caller_headers import TRUE, CallerHeaders
from penstock.ingress.granted import Granted
from penstock.ingress.routes import Route
from penstock.records.request import Api
from penstock.wire.json_body import Field, Fields
from penstock.wire.prompt_request import OPTIONS
from penstock.wire.queued import wants_queue

if TYPE_CHECKING:
    from penstock.wire.prompt.parsed_body import ParsedBody

_SERVICE_TIER: Final = Field("service_tier", msgspec.json.Decoder(str | None), None)


class Wish(Enum):
    """How a caller that need not be served now wants to hear of it."""

    # Workers AI's `queueRequest`: told an id at once, polls for the rest.
    QUEUE = auto()
    # `cf-aig-async`: the same, told as a `taskId`.
    TASK = auto()
    # `Prefer: respond-async`: the answer if it comes soon, else the job.
    PREFER = auto()
    # `service_tier: "flex"`: waits in line, and is answered in place.
    IN_PLACE = auto()


class Asked:
    """What is known before the prompt itself is read. `wish` is None for what is wanted now."""

    __slots__ = (
        "account", "api", "body_bytes", "fields", "grant", "granted", "model", "parsed", "route",
        "wish",
    )  # fmt: skip

    def __init__(
        self,
        route: Route,
        granted: Granted,
        fields: Fields,
        api: Api,
        body_bytes: int,
        wish: Wish | None = None,
    ) -> None:
        self.route = route
        self.granted = granted
        self.model = granted.model
        self.grant = granted.grant
        self.account = granted.account
        self.fields = fields
        self.api = api
        self.body_bytes = body_bytes
        self.wish = wish
        # A chat's body as it was split, until the prompt is read.
        self.parsed: ParsedBody | None = None

    def with_fields(self, fields: Fields) -> "Asked":
        """The same of one of several that came in a body."""
        return Asked(self.route, self.granted, fields, self.api, self.body_bytes, self.wish)


def wish_of(route: Route, headers: CallerHeaders, fields: Fields) -> Wish | None:
    """None for most, after a few lookups: every request comes by here."""
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
            return Wish.QUEUE
        if headers.wants_task():
            return Wish.TASK
    elif _asks_for_queue(route, fields):
        raise InvalidRequest(
            '`queueRequest` is for `/ai/run`: here send `service_tier: "flex"`, or the header '
            "`Prefer: respond-async`.",
            param="queueRequest",
        )
    if headers.preference() is not None:
        return Wish.PREFER
    if "service_tier" in fields and _SERVICE_TIER.read(fields) == "flex":
        return Wish.IN_PLACE
    return None


def _asks_for_queue(route: Route, fields: Fields) -> bool:
    """Options come in the query and in the body."""
    query = route.query
    if query and query.get("queueRequest", "").lower() in TRUE:
        return True
    if "options" not in fields:
        return False
    options = OPTIONS.read(fields)
    return options is not None and bool(options.queue_request)
