"""`response_format`: Workers AI's bare schema and OpenAI's wrapped one are both understood."""

import json
from typing import Any

import pytest

from penstock.errors import InvalidRequest
from penstock.wire.apis.response_format import is_structured, normalised
from penstock.wire.json_body import read_fields

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def normal(value: object) -> tuple[bool, Any]:
    fields = read_fields(json.dumps({"response_format": value}).encode())
    has_structure = normalised(fields)
    assert is_structured(fields) is has_structure
    return has_structure, json.loads(bytes(fields["response_format"]))


def test_openais_wrapped_schema_goes_on_as_it_is() -> None:
    wrapped = {"name": "answer", "schema": SCHEMA, "strict": True}
    value = {"type": "json_schema", "json_schema": wrapped}
    assert normal(value) == (True, value)


def test_bare_schema_is_wrapped_once_and_unchanged() -> None:
    has_structure, value = normal({"type": "json_schema", "json_schema": SCHEMA})
    assert has_structure
    assert value["type"] == "json_schema"
    assert value["json_schema"]["schema"] == SCHEMA
    assert value["json_schema"]["name"]
    # What we wrote is wrapped: reading it again changes nothing.
    assert normal(value) == (True, value)


@pytest.mark.parametrize(
    "bare",
    [
        {"title": "T", "description": "d", **SCHEMA},
        {"properties": {"schema": {"type": "string"}, "name": {"type": "string"}}},
        {"name": "odd", "type": "object"},
        {"name": "odd", "properties": {}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array"},
        {"anyOf": [{"type": "string"}]},
        {},
    ],
)
def test_schema_that_has_no_wrapping_is_recognised_as_bare(bare: dict[str, object]) -> None:
    _, value = normal({"type": "json_schema", "json_schema": bare})
    assert value["json_schema"]["schema"] == bare


@pytest.mark.parametrize(
    "wrapped", [{"name": "n"}, {"name": "n", "strict": False}, {"schema": SCHEMA}]
)
def test_wrapping_without_all_its_parts_is_still_a_wrapping(wrapped: dict[str, object]) -> None:
    _, value = normal({"type": "json_schema", "json_schema": wrapped})
    assert value["json_schema"] == wrapped


@pytest.mark.parametrize(
    ("value", "has_structure"),
    [
        (None, False),
        ({"type": "text"}, False),
        ({"type": "json_object"}, True),
        ({"type": "structural_tag", "format": {}}, True),
    ],
)
def test_other_types_go_on_as_they_are(value: object, has_structure: bool) -> None:
    assert normal(value) == (has_structure, value)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": None},
        {"type": "json_schema", "json_schema": "x"},
        {"type": "json_schema", "json_schema": [SCHEMA]},
        {"json_schema": SCHEMA},
        {"type": None},
        "json_schema",
        1,
        [],
    ],
)
def test_format_without_its_schema_or_type_is_refused_with_param(value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        normal(value)
    assert refused.value.param == "response_format"


def test_fields_without_a_format_have_no_structure() -> None:
    assert not is_structured({})
