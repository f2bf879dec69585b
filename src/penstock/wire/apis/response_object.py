"""Makes the response object of the Responses API: the fields that every answer has.

Clients and the Open Responses document expect all of them in every answer, null where unknown.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import Fields, is_given

Response = dict[str, Any]

# What a caller may set and gets back, with the value of a request that does not set it.
_ECHOED: Final[dict[str, object]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "metadata": {},
}
_PLAIN_TEXT: Final = {"type": "text"}
_FUNCTION_FIELDS: Final = ("description", "parameters", "strict")


def echo_of(fields: Fields) -> Response:
    """Return what a request set, as its response repeats it.

    Large values stay JSON: a response is written several times in a stream, and to copy them is
    all that a worker's event loop has time for. This itself may run in a thread.
    """
    echo: Response = {
        name: fields[name] if is_given(fields, name) else default
        for name, default in _ECHOED.items()
    }
    text = _decoded(fields, "text", {})
    reasoning = _decoded(fields, "reasoning", {})
    tools = [_tool(tool) for tool in _decoded(fields, "tools", [])]
    echo["reasoning"] = {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")}
    echo["text"] = _raw({**text, "format": text.get("format") or _PLAIN_TEXT})
    echo["tools"] = _raw(tools)
    return echo


def new_response(id: str, created_at: int, model: str, echo: Response) -> Response:
    """Return the object of a response that has just begun."""
    return {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "store": False,
        **echo,
        "service_tier": "default",
        "truncation": "disabled",
        "usage": None,
    }


def _decoded(fields: Fields, name: str, default: Any) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.json.decode(fields[name]) if is_given(fields, name) else default


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a function with all its fields: a client may read one that the caller left out."""
    return {**dict.fromkeys(_FUNCTION_FIELDS), **tool} if tool.get("type") == "function" else tool
