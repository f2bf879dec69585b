"""Normalises `response_format`: a bare schema, as in Workers AI, is wrapped as in OpenAI."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import InvalidRequest
from penstock.wire.json_body import DEPTH_MAX, Fields, given, refuse_deep


class _ResponseFormat(msgspec.Struct):
    type: str
    json_schema: Raw | UnsetType = UNSET


class _Wrapped(msgspec.Struct):
    name: str
    schema: Raw


_decoder = msgspec.json.Decoder(_ResponseFormat | None)
_schema_decoder = msgspec.json.Decoder(Fields)


def normalised(fields: Fields) -> bool:
    """Wrap a bare schema in place; return whether the answer must have a structure at all."""
    raw = fields["response_format"]
    refuse_deep(raw, levels_max=DEPTH_MAX - 1, param="response_format")
    try:
        wanted = _decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`response_format`: {bad}", param="response_format") from None
    if wanted is None or wanted.type == "text":
        return False
    if wanted.type == "json_schema":
        _wrap(fields, wanted)
    return True


def is_structured(fields: Fields) -> bool:
    """Return whether the answer must have a structure, by fields that were normalised before."""
    raw = fields.get("response_format")
    if raw is None:
        return False
    wanted = _decoder.decode(raw)
    return wanted is not None and wanted.type != "text"


def _wrap(fields: Fields, wanted: _ResponseFormat) -> None:
    raw = given(wanted.json_schema)
    if raw is None:
        raise InvalidRequest("`response_format.json_schema` is required.", param="response_format")
    try:
        schema = _schema_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(
            f"`response_format.json_schema`: {bad}", param="response_format"
        ) from None
    is_wrapped = "schema" in schema or (
        "name" in schema and "type" not in schema and "properties" not in schema
    )
    if is_wrapped:
        return
    wrapped = _Wrapped(name="response", schema=raw)
    value = {"type": "json_schema", "json_schema": wrapped}
    fields["response_format"] = Raw(msgspec.json.encode(value))
