"""One inference request while it is served: its connection, what was read of it, how it ends."""

from typing import TYPE_CHECKING

from penstock.clock import new_id
from penstock.ingress.http.exchange import Exchange
from penstock.records.request import InferenceRequest, RequestEnd, RequestId

if TYPE_CHECKING:
    from penstock.admission import Hold
    from penstock.ingress.inference.client_writer import ClientWriter
    from penstock.records.account import Key


class InferenceCall:
    """Its fields are set as they become known."""

    def __init__(self, exchange: Exchange, started: float) -> None:
        self.id = RequestId(new_id())
        self.exchange = exchange
        self.started = started
        self.key: Key | None = None
        self.end = RequestEnd()
        self.request: InferenceRequest | None = None
        self.writer: ClientWriter | None = None
        # What was reserved for it before its writer was made.
        self.hold: Hold | None = None
