"""Reference pages of the API, made of `/openapi.json` and of docs/words/fields.toml.

One page for each kind of endpoint, with what it takes and answers field by field. A path that no
kind knows lands on the last page, so that none is left out.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from penstock.ingress.pages.openapi import document

Schema = dict[str, Any]
WORDS: dict[str, str] = tomllib.loads((Path(__file__).parent / "words/fields.toml").read_text())
_REF = "#/components/schemas/"
_ACCOUNT = "/client/v4/accounts/{account_id}"
_METHODS = ("get", "post", "patch", "delete", "put")


class Kind(msgspec.Struct, frozen=True):
    """One page: endpoints whose path, without its account, matches."""

    file: str
    title: str
    about: str
    pattern: str


KINDS = (
    Kind(
        "containers.md",
        "API: containers",
        "Places where code runs, and their files. [Containers](../../containers.md) has examples.",
        r"/v1/containers|/ai/v1/containers",
    ),
    Kind(
        "inference.md",
        "API: inference",
        "Ask a model. [Which of these to use](../../apis.md) says what they have in common.",
        r"/v1/(chat/completions|responses|messages|completions|embeddings)|/ai/(run|v1/(?!models))",
    ),
    Kind(
        "models.md",
        "API: models",
        "Which models there are, and what they take and answer.",
        r"/v1/models|/ai/(v1/)?models",
    ),
    Kind(
        "jobs.md",
        "API: jobs, batches and files",
        "Work that may wait. [Flex](../../flex.md) says what happens to it.",
        r"/v1/(jobs|files|batches)|/ai/tasks",
    ),
    Kind(
        "usage.md",
        "API: usage",
        "What was used and what it cost. [Usage reports](../../usage-reports.md) reads them.",
        r"/v1/usage",
    ),
    Kind(
        "events.md",
        "API: events and webhooks",
        "To be told instead of asking. [Events](../../events.md) says what is promised.",
        r"/v1/(events|webhook)|/event_subscriptions",
    ),
    Kind(
        "other.md",
        "API: routing, health, description",
        "For operators, load balancers and tools.",
        r"",
    ),
)


def api_pages() -> dict[str, str]:
    """Every page of the API's reference by file name."""
    operations: dict[Kind, list[tuple[str, str, Schema]]] = {kind: [] for kind in KINDS}
    for path, methods in document()["paths"].items():
        operations[kind_of(path)] += [(m, path, methods[m]) for m in _METHODS if m in methods]
    return {kind.file: _page(kind, found) for kind, found in operations.items()}


def kind_of(path: str) -> Kind:
    """The page that has this path."""
    short = path.removeprefix(_ACCOUNT)
    return next(kind for kind in KINDS if re.match(kind.pattern, short))


def anchor(method: str, path: str) -> str:
    """The anchor of an endpoint on its page."""
    return re.sub(r"[^\w -]", "", _title(method, path).lower()).replace(" ", "-")


def _title(method: str, path: str) -> str:
    """Short enough for a table of contents; the section has the whole path."""
    return f"{method.upper()} {path.replace(_ACCOUNT, '…')}"


def _page(kind: Kind, operations: list[tuple[str, str, Schema]]) -> str:
    parts = [f"# {kind.title}\n", kind.about, ""]
    used: list[str] = []
    for method, path, about in operations:
        parts += _endpoint(method, path, about)
        _collect(about, used)
    if used:
        parts += ["## Types\n", "Fields in **bold** are always there, or must be sent.\n"]
    for name in sorted(used):
        parts += _type(name)
    return "\n".join(parts)


def _endpoint(method: str, path: str, about: Schema) -> list[str]:
    parts = [
        f"## `{_title(method, path)}`\n",
        f"{about['summary']}.\n",
    ]
    if path.startswith(_ACCOUNT):
        parts.append(f"`{path}`\n")
    if about.get("security") == []:
        parts.append("Asks for no key.\n")
    if parameters := about.get("parameters"):
        parts += ["| parameter | in | type | what it is |", "|---|---|---|---|"]
        parts += [_parameter_row(one) for one in parameters]
        parts.append("")
    if body := about.get("requestBody"):
        kinds = "; ".join(_content(kind, one) for kind, one in body["content"].items())
        parts.append(f"**Takes** {kinds}.\n")
    parts += ["| answer | what it is |", "|---|---|"]
    for status, answer in sorted(about["responses"].items()):
        if status == "4XX":
            parts.append(f"| 4XX, 5XX | [An error](../errors.md): {_contents(answer)} |")
        elif status != "5XX":
            said = "" if answer["description"] == "OK" else f"{answer['description']} "
            parts.append(f"| {status} | {said}{_contents(answer)} |")
    return [*parts, ""]


def _parameter_row(one: Schema) -> str:
    said = one.get("description") or WORDS.get(f"parameter.{one['name']}", "")
    name = f"**`{one['name']}`**" if one.get("required") else f"`{one['name']}`"
    return f"| {name} | {one['in']} | {type_of(one['schema'])} | {said} |"


def _contents(answer: Schema) -> str:
    return "; or ".join(_content(kind, one) for kind, one in answer["content"].items())


def _content(kind: str, one: Schema) -> str:
    schema = one["schema"]
    if kind == "application/json":
        return type_of(schema)
    if "description" in schema:
        return f"`{kind}`: {schema['description'].rstrip('.')}"
    fields = ", ".join(f"`{name}`" for name in schema.get("properties", {}))
    return f"`{kind}` with {fields}"


def _type(name: str) -> list[str]:
    schema = document()["components"]["schemas"][name]
    parts = [f"### {name}\n"]
    if said := schema.get("description"):
        parts.append(f"{said}\n")
    if fields := schema.get("properties"):
        must = schema.get("required", [])
        parts += ["| field | type | what it is |", "|---|---|---|"]
        rows = sorted(fields.items(), key=lambda row: row[0] not in must)
        parts += [_field_row(name, field, one, field in must) for field, one in rows]
        return [*parts, ""]
    return [*parts, f"{type_of(schema)}\n"]


def _field_row(owner: str, field: str, schema: Schema, is_required: bool) -> str:
    name = f"**`{field}`**" if is_required else f"`{field}`"
    said = WORDS.get(f"{owner}.{field}") or WORDS.get(field, "")
    return f"| {name} | {type_of(schema)} | {said} |"


def type_of(schema: Schema) -> str:
    """A schema in a few words; named ones link to their section."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[word]))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{value}`" for value in values)
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if kind == "object" and "result" in schema.get("properties", {}):
        return f"envelope of {type_of(schema['properties']['result'])}"
    return f"{kind}{_bounds(schema)}" if kind else "any"


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f", above {schema['exclusiveMinimum']}, up to {high}"
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f" from {low}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']} characters"
    return ""


def _collect(schema: object, found: list[str]) -> None:
    """Names of all types that a schema speaks of, and those that these speak of."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, found)
    elif isinstance(schema, dict):
        name = str(schema.get("$ref", "")).removeprefix(_REF)
        if name and name not in found:
            found.append(name)
            _collect(document()["components"]["schemas"][name], found)
        for one in schema.values():
            _collect(one, found)
