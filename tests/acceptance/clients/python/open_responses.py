"""The cases of the Open Responses suite by plain HTTP; answers are read by its published models.

A model refuses an answer that lacks one of the document's fields; the script then ends with an
error. `stream` gives the name of each event, the type in its data, and the stream's last words.
"""

import base64
import json
from typing import Any

import httpx
import openresponses_types
from openresponses_types import CompactResource, ResponseResource
from tests.acceptance.clients.python.given import KEY, MODEL, URL, answer

client = httpx.Client(
    base_url=f"{URL}/v1", headers={"authorization": f"Bearer {KEY}"}, timeout=60.0
)
# A white pixel, and a page without text.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
PDF = base64.b64encode(b"%PDF-1.1\ntrailer << /Root 1 0 R >>\n%%EOF").decode()
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
TIDES = {**WEATHER, "name": "tides"}
TOOLS = [WEATHER, TIDES]
CALL = 'CALL weather {"city":"Porto"}'
# Types that OpenAI's clients know by another name than the document's, and that name.
RENAMED = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}


def basic() -> object:
    return _shown(_create(input=[_said("user", "Say hello.")]))


def streaming() -> object:
    return _stream(input=[_said("user", "Count to five.")])


def thinking() -> object:
    return _stream(input=[_said("user", 'Hello.\n@script {"reasoning": "Let me see."}')])


def cut_short() -> object:
    return _stream(input="Count to a thousand.", max_output_tokens=3)


def failing() -> object:
    return _stream(input='Hello.\n@script {"tokens": 20, "error_after": 8}')


def system_prompt() -> object:
    return _shown(_create(input=[_said("system", "Be a pirate."), _said("user", "Say hello.")]))


def tool_calling() -> object:
    return _shown(_create(input=[_said("user", CALL)], tools=TOOLS))


def streamed_tool_calling() -> object:
    return _stream(input=[_said("user", CALL)], tools=TOOLS)


def function_call_roundtrip() -> object:
    choice = {"type": "function", "name": "weather"}
    asked = _create(input="Is it raining in Porto?", tools=TOOLS, tool_choice=choice)
    (call,) = asked.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    done = _create(previous_response_id=asked.id, input=[output], tools=TOOLS)
    return {"asked": _shown(asked), "done": _shown(done)}


def allowed_tools() -> object:
    """The model wants a tool that it may not use; then it must use the one that it may."""
    told = []
    for mode in ("auto", "required"):
        allowed = [{"type": "function", "name": "tides"}]
        choice = {"type": "allowed_tools", "mode": mode, "tools": allowed}
        told.append(_shown(_create(input=CALL, tools=TOOLS, tool_choice=choice)))
    return told


def image_input() -> object:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    return _shown(_create(input=[_said("user", [_text("What is this?"), image])]))


def file_input() -> object:
    file = {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": f"data:application/pdf;base64,{PDF}",
    }
    body = {"model": MODEL, "input": [_said("user", [_text("What is this?"), file])]}
    refused = client.post("/responses", json=body)
    return {"status": refused.status_code, "error": refused.json()["error"]}


def multi_turn() -> object:
    turns = [("user", "My name is Ada."), ("assistant", "Hello."), ("user", "What is my name?")]
    return _shown(_create(input=[_said(role, text) for role, text in turns]))


def previous_response_id() -> object:
    first = _create(input="Remember the word papaya.")
    return [_shown(first), _shown(_create(input="Which?", previous_response_id=first.id))]


def compaction() -> object:
    turns = [_said("user", "My name is Ada."), _said("assistant", "Hello.")]
    sent = client.post("/responses/compact", json={"model": MODEL, "input": turns})
    assert sent.status_code == 200, sent.text
    compacted = CompactResource.model_validate_json(sent.content)
    return {"kinds": [item.type for item in compacted.output]}


def _create(**fields: object) -> Any:
    sent = client.post("/responses", json={"model": MODEL, **fields})
    assert sent.status_code == 200, sent.text
    return ResponseResource.model_validate_json(sent.content)


def _stream(**fields: object) -> object:
    sent = client.post("/responses", json={"model": MODEL, "stream": True, **fields})
    assert sent.status_code == 200, sent.text
    *events, end, rest = sent.text.split("\n\n")
    assert rest == "", rest
    names, read = [], []
    for event in events:
        name, data = event.split("\n")
        names.append(name.removeprefix("event: "))
        read.append(_read(json.loads(data.removeprefix("data: "))))
    return {
        "names": names,
        "types": [type for type, _ in read],
        "end": end,
        "numbers": [event.sequence_number for _, event in read],
        "response": _shown(read[-1][1].response),
    }


def _read(data: dict[str, Any]) -> tuple[str, Any]:
    """An event's own type, and the event as the document's model has it."""
    type = data["type"]
    known = RENAMED.get(type, type)
    return type, EVENTS[known].model_validate({**data, "type": known})


def _event_models() -> dict[str, Any]:
    """Every model of a stream's event, by the one type that it takes."""
    models = [
        model for name, model in vars(openresponses_types).items()
        if name.endswith("StreamingEvent")
    ]  # fmt: skip
    return {next(iter(each.model_fields["type"].annotation)).value: each for each in models}


def _said(role: str, content: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


def _text(text: str) -> dict[str, object]:
    return {"type": "input_text", "text": text}


def _shown(response: Any) -> dict[str, Any]:
    return {
        "status": response.status,
        "previous": response.previous_response_id,
        "id": response.id,
        "store": response.store,
        "output": [item.model_dump(mode="json") for item in response.output],
        "choice": response.model_dump(mode="json")["tool_choice"],
        "has_usage": response.usage is not None,
    }


EVENTS = _event_models()

if __name__ == "__main__":
    answer(
        {
            "basic": basic,
            "streaming": streaming,
            "thinking": thinking,
            "cut_short": cut_short,
            "failing": failing,
            "system_prompt": system_prompt,
            "tool_calling": tool_calling,
            "streamed_tool_calling": streamed_tool_calling,
            "function_call_roundtrip": function_call_roundtrip,
            "allowed_tools": allowed_tools,
            "image_input": image_input,
            "file_input": file_input,
            "multi_turn": multi_turn,
            "previous_response_id": previous_response_id,
            "compaction": compaction,
        }
    )
