"""Writes the answer of a turn with tools: several answers of the engine are one to the client."""

from penstock.engine.sink import Sink
from penstock.errors import Error
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.client_writer import AnswerTerms, KeepaliveTimer
from penstock.ingress.inference.composed_shaper import ComposedShaper
from penstock.ingress.inference.stored_writer import StoredWriter
from penstock.metering import usd_bytes
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.serving.shaping import Shaper
from penstock.wire.apis.turn_composer import TurnComposer


class TurnWriter(StoredWriter):
    """Sends events as they come, and comments while tools run. `finish` ends the answer."""

    def __init__(
        self,
        exchange: Exchange,
        terms: AnswerTerms,
        end: RequestEnd,
        composed: ComposedShaper,
        after: Shaper,
    ) -> None:
        super().__init__(exchange, terms, end, composed, after)
        assert isinstance(composed.composer, TurnComposer), "turns have a composer of their own"
        self.turn = composed.composer
        # Set by the endpoint if the answer is streamed.
        self.timer: KeepaliveTimer | None = None

    @property
    def sink(self) -> Sink:
        return self

    def shape(self, answer: bytes) -> bytes:
        self.turn.take_whole(answer)
        return b""

    def report(self) -> None:
        """Send the events that the composer has written."""
        if self.timer is None:
            return
        events = self.turn.written()
        if events:
            self._silence()
            self._write(self._after.events(events))

    def keep_alive(self) -> None:
        """Send comments until the next event."""
        if self.timer is not None and self.keepalive is None:
            self.timer.arm()

    def finish(self, usage: Usage | None) -> None:
        self._silence()
        super().finish(usage)

    def fail(self, error: Error, request_id: str) -> None:
        self._silence()
        super().fail(error, request_id)

    def _silence(self) -> None:
        if self.keepalive is not None:
            self.keepalive.cancel()
            self.keepalive = None

    def _cost(self, usage: Usage) -> bytes:
        """What all requests of the turn were charged."""
        return usd_bytes(self._end.charge_nanousd)
