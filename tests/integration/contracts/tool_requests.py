"""Requests that offer tools. A shape is an API, or what a model makes of it."""

from typing import Any

from tests.integration.cells.gateway_cell import CHAT, COMPOSED, NATIVE, Body

SHAPES = ("chat", "functions", "responses", "composed", "messages", "native", "openai")


def tool_request(
    shape: str, account: str, messages: list[Body], names: tuple[str, ...], **fields: Any
) -> tuple[str, Body]:
    """The path and the body of a request that offers tools of these names."""
    body = {**_tools(shape, names), **fields}
    match shape:
        case "responses" | "composed":
            model = CHAT if shape == "responses" else COMPOSED
            return "/v1/responses", {"model": model, "input": messages, "store": False, **body}
        case "messages":
            given = {"model": CHAT, "max_tokens": 500, "messages": messages}
            return "/v1/messages", {**given, **body}
        case "native" | "openai":
            model = NATIVE if shape == "native" else CHAT
            path = f"/client/v4/accounts/{account}/ai/run/{model}"
            return path, {"messages": messages, **body}
        case _:
            return "/v1/chat/completions", {"model": CHAT, "messages": messages, **body}


def _tools(shape: str, names: tuple[str, ...]) -> Body:
    schema = {"type": "object"}
    flat = [{"name": name, "parameters": schema} for name in names]
    match shape:
        case "functions":
            return {"functions": flat}
        case "responses" | "composed":
            return {"tools": [{"type": "function", **each} for each in flat]}
        case "messages":
            return {"tools": [{"name": name, "input_schema": schema} for name in names]}
        case "native":
            return {"tools": flat}
        case _:
            return {"tools": [{"type": "function", "function": each} for each in flat]}
