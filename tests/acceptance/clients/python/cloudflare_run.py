"""Cloudflare's SDK with another base URL: the models of both families, and the queue."""

import json
import time
from typing import Any

import cloudflare
from cloudflare import Cloudflare
from tests.acceptance.clients.python.given import (
    ACCOUNT,
    HEADERS,
    INSTRUCTIONS,
    KEY,
    MODEL,
    PROMPT,
    TOOL_PROMPT,
    TURNS,
    URL,
    answer,
    weather,
)

client = Cloudflare(api_token=KEY, base_url=f"{URL}/client/v4", default_headers=HEADERS)
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": PLACE}}]


def text() -> object:
    done = _run(messages=[{"role": "user", "content": PROMPT}])
    return {"text": _text(done), "usage": _read(done)}


def path() -> object:
    """The address as this client writes it."""
    sent = client.ai.with_raw_response.run(MODEL, account_id=ACCOUNT, prompt=PROMPT)
    return sent.http_request.url.raw_path.decode()


def stream() -> object:
    pieces, usage = [], None
    with client.ai.with_streaming_response.run(
        MODEL,
        account_id=ACCOUNT,
        prompt=PROMPT,
        stream=True,
        extra_body={"stream_options": {"include_usage": True}},
    ) as answering:
        for line in answering.iter_lines():
            data = line.removeprefix("data: ")
            if not data or data == "[DONE]":
                continue
            event = json.loads(data)
            piece = event.get("response") or "".join(
                choice["delta"].get("content") or "" for choice in event.get("choices", [])
            )
            pieces += [piece] if piece else []
            usage = event.get("usage") or usage
    return {"pieces": pieces, "usage": _read({"usage": usage})}


def tools() -> object:
    messages: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    asked = _run(messages=messages, tools=TOOLS)
    # Each family says it in its own way: OpenAI's has ids and JSON as text, the native one neither.
    is_native = "choices" not in asked
    message = asked if is_native else asked["choices"][0]["message"]
    (call,) = message["tool_calls"]
    place = call["arguments"] if is_native else json.loads(call["function"]["arguments"])
    result = weather(**place)
    call_id = "call-1" if is_native else call["id"]
    if is_native:
        arguments = {"name": call["name"], "arguments": json.dumps(place)}
        call = {"id": call_id, "type": "function", "function": arguments}
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
    return {"results": [result], "text": _text(_run(messages=messages, tools=TOOLS))}


def structured() -> object:
    properties = {"city": {"type": "string"}, "degrees": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    done = _run(
        messages=[{"role": "user", "content": PROMPT}],
        extra_body={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "forecast", "schema": schema},
            }
        },
    )
    found = _text(done)
    return json.loads(found) if isinstance(found, str) else found


def conversation() -> object:
    messages: list[Any] = [{"role": "system", "content": INSTRUCTIONS}]
    usage = []
    for words in TURNS:
        messages.append({"role": "user", "content": words})
        done = _run(messages=messages)
        messages.append({"role": "assistant", "content": _text(done)})
        usage.append(_read(done))
    return usage


def queue() -> object:
    """Several requests by one call, polled for on the same path."""
    requests = [{"prompt": words, "external_reference": words} for words in TURNS]
    queued = _run(extra_body={"requests": requests}, extra_query={"queueRequest": "true"})
    ended = time.monotonic() + 60
    while time.monotonic() < ended:
        found = _run(extra_body={"request_id": queued["request_id"]})
        if "responses" in found:
            return {
                "status": queued["status"],
                "references": sorted(each["external_reference"] for each in found["responses"]),
                "texts": [_text(each["result"]) for each in found["responses"]],
                "usage": found["usage"],
            }
        time.sleep(0.2)
    return found


def error() -> object:
    try:
        text()
    except cloudflare.APIStatusError as raised:
        return {
            "raised": type(raised).__name__,
            "status": raised.status_code,
            "codes": [each.code for each in raised.errors],
            "text": str(raised),
        }
    return None


def _run(**asked: Any) -> Any:
    # The SDK wants one of its own shapes of input; what it does not know goes into extra_body.
    asked.setdefault("messages", cloudflare.omit)
    return client.ai.run(MODEL, account_id=ACCOUNT, **asked)


def _text(result: Any) -> Any:
    return result["choices"][0]["message"]["content"] if "choices" in result else result["response"]


def _read(result: Any) -> dict[str, int]:
    usage = result["usage"]
    return {
        "prompt": usage["prompt_tokens"],
        "cached": usage["prompt_tokens_details"]["cached_tokens"],
        "output": usage["completion_tokens"],
    }


if __name__ == "__main__":
    answer(
        {
            "text": text,
            "path": path,
            "stream": stream,
            "tools": tools,
            "structured": structured,
            "conversation": conversation,
            "queue": queue,
            "error": error,
        }
    )
