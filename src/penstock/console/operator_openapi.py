"""Generates `/operator/v1/openapi.json` from the operations, so that it cannot contradict them."""

from functools import cache
from typing import Any, Final

import msgspec

from penstock.console.operation import PREFIX, Operation
from penstock.console.operations import OPERATIONS
from penstock.ingress.pages.openapi_parts import Schema, content, operation, ref
from penstock.wire.resources.errors import OpenAIErrorAnswer

_REF: Final = "#/components/schemas/{name}"
_ERROR: Final = "OpenAIErrorAnswer"


@cache
def document() -> Schema:
    """Return the whole description, OpenAPI 3.1."""
    types = [each.question for each in OPERATIONS] + [each.answer for each in OPERATIONS]
    _, schemas = msgspec.json.schema_components([*types, OpenAIErrorAnswer], ref_template=_REF)
    paths: dict[str, Schema] = {}
    bodies: dict[str, Schema] = {}
    for each in OPERATIONS:
        question = schemas[each.question.__name__]
        described = operation(
            each.summary, ref(each.answer.__name__), _ERROR, parameters=_parameters(each, question)
        )
        described["operationId"] = each.name
        if each.has_body:
            name = f"{each.question.__name__}Body"
            bodies[name] = _without(question, each.path_fields)
            described["requestBody"] = {"required": True, "content": content(ref(name))}
        paths.setdefault(f"{PREFIX}{each.path}", {})[each.method.lower()] = described
    for each in OPERATIONS:
        # A question is no body of its own: its fields are parameters, or in the body above.
        schemas.pop(each.question.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock operator's API", "version": "1"},
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas | bodies,
        },
    }


def _parameters(each: Operation[Any, Any], question: Schema) -> list[Schema]:
    fields: dict[str, Schema] = question.get("properties", {})
    required = question.get("required", [])
    places = dict.fromkeys(each.path_fields, "path")
    if not each.has_body:
        places = dict.fromkeys(fields, "query") | places
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path" or name in required,
            "schema": _plain(fields[name]),
        }
        for name, place in places.items()
    ]


def _plain(schema: Schema) -> Schema:
    """Return a field's schema without null and default: a parameter is left out instead."""
    kinds: list[Schema] = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return kinds[0]
    return {name: value for name, value in schema.items() if name != "default"}


def _without(question: Schema, names: tuple[str, ...]) -> Schema:
    fields = {name: kind for name, kind in question["properties"].items() if name not in names}
    required = [name for name in question.get("required", []) if name not in names]
    return {**question, "properties": fields, "required": required}
