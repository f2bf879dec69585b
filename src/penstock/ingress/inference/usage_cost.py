"""Adds `cost` to the `usage` of an answer, for a caller who asked with `x-penstock-cost: usage`.

Dollars, by the price that is charged. OpenAI's API has no such field, so it is off by default, and
answers are then passed on byte for byte.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.metering import usd_bytes
from penstock.records.price import Price, cost_nanousd
from penstock.records.request import Api
from penstock.serving.shaping import Shaper
from penstock.wire.engine_usage import usage_of_answer

_END: Final = b"\n\n"
_DATA: Final = b"data: "
_USAGE_KEY: Final = b'"usage"'
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final = msgspec.json.encode


class UsageCost(Shaper):
    """A step before the client's API: it reads answers as engines write them."""

    def __init__(self, api: Api, price: Price) -> None:
        self._api = api
        self._price = price

    def events(self, events: bytes) -> bytes:
        if self._api is Api.MESSAGES or _USAGE_KEY not in events:
            # The events of Messages tell a prompt's tokens and the answer's in different places.
            return events
        return b"".join([self._event(event) + _END for event in events[: -len(_END)].split(_END)])

    def answer(self, answer: bytes) -> bytes:
        return self._priced(answer)

    def _event(self, event: bytes) -> bytes:
        if _USAGE_KEY not in event:
            return event
        before, mark, data = event.partition(_DATA)
        if self._api is not Api.RESPONSES:
            return before + mark + self._priced(data)
        try:
            fields = _fields.decode(data)
        except msgspec.DecodeError:
            return event
        response = fields.get("response")
        if response is None:
            return event
        fields["response"] = Raw(self._priced(bytes(response)))
        return before + mark + _encode(fields)

    def _priced(self, data: bytes) -> bytes:
        """Return the object with the cost of its usage; as it is if it has none."""
        try:
            usage = usage_of_answer(self._api, data)
            if usage is None:
                return data
            fields = _fields.decode(data)
            counts = _fields.decode(fields["usage"])
        except (msgspec.DecodeError, RecursionError):
            return data
        counts["cost"] = Raw(usd_bytes(cost_nanousd(usage, self._price)))
        fields["usage"] = Raw(_encode(counts))
        return _encode(fields)
