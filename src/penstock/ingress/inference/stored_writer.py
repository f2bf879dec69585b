"""Writes the answer of a stored response: its last bytes wait until it is stored."""

import msgspec

from penstock.ingress.http.exchange import Exchange
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter
from penstock.ingress.inference.composed_shaper import ComposedShaper
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.serving.shaping import Shaper, Steps


class StoredWriter(ClientWriter):
    """Holds a whole answer, and the last event of a stream, back until `finish`.

    `composed` writes the response; `after` are the steps behind it.
    """

    def __init__(
        self,
        exchange: Exchange,
        terms: AnswerTerms,
        end: RequestEnd,
        composed: ComposedShaper,
        after: Shaper,
    ) -> None:
        super().__init__(exchange, terms, end, composed, Steps(composed, after))
        self.composer = composed.composer
        self._after = after
        self._is_whole = False

    def shape(self, answer: bytes) -> bytes:
        self.composer.answer(answer)
        return b""

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        self._is_whole = True

    def finish(self, usage: Usage | None) -> None:
        """Write what was held back; the response says whether it was stored."""
        if not self._is_whole:
            super().finish(usage)
            return
        shaped = msgspec.json.encode(self.composer.response)
        super().whole(self._after.answer(shaped), usage)
