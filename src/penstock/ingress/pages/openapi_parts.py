"""The pieces that descriptions of pages for `/openapi.json` are made of."""

from typing import Any

Schema = dict[str, Any]


def operation(
    summary: str, answer: Schema, error: str, body: str = "", parameters: list[Schema] | None = None
) -> Schema:
    failed = {"description": "An error; its code says which.", "content": content(ref(error))}
    responses = {"200": {"description": "OK", "content": content(answer)}}
    described: Schema = {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {**responses, "4XX": failed, "5XX": failed},
    }
    if body:
        described["requestBody"] = {"required": True, "content": content(ref(body))}
    return described


def parameter(name: str, place: str, description: str) -> Schema:
    is_path = place == "path"
    return {
        "name": name,
        "in": place,
        "required": is_path,
        "description": description,
        "schema": {"type": "string"},
    }


def number(name: str, most: int) -> Schema:
    schema = {"type": "integer", "minimum": 1, "maximum": most}
    return {**parameter(name, "query", "Which part of the list."), "schema": schema}


def content(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
