"""Reads the chat that a request of `/ai/run` nests in `input` beside its model."""

import msgspec

from penstock.errors import InvalidRequest
from penstock.intake.routes import RequestRoute
from penstock.wire.json_body import Fields

_input_decoder = msgspec.json.Decoder(Fields)


def unwrapped(route: RequestRoute, fields: Fields) -> Fields:
    """Return the input's fields: nested in `input` if the path of `/ai/run` names no model."""
    if route.model is not None:
        return fields
    raw = fields.get("input")
    if raw is None:
        raise InvalidRequest("`input` is required beside `model`.", param="input")
    try:
        inner = _input_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`input`: {bad}", param="input") from None
    if "options" in fields:
        inner.setdefault("options", fields["options"])
    return inner
