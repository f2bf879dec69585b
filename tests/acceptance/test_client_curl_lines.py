"""curl, as a person types it: set the variables of a line, and it can be pasted."""

import json
from typing import Any

import pytest
from tests.acceptance.client_cell import KIMI, LLAMA, ClientCell
from tests.acceptance.client_checks import (
    TOO_LONG,
    UNKNOWN_MODEL,
    WRONG_KEY,
    check_conversation,
    check_tool_round,
    check_usage,
)
from tests.acceptance.client_run import run_shell

OPENAI = """\
curl -sS "$PENSTOCK_URL/v1/chat/completions" \
  -H "Authorization: Bearer $PENSTOCK_KEY" -H "x-session-affinity: $SESSION" \
  -d "$BODY"
"""
WORKERS = """\
curl -sS "$PENSTOCK_URL/client/v4/accounts/$PENSTOCK_ACCOUNT/ai/run/$MODEL" \
  -H "Authorization: Bearer $PENSTOCK_KEY" -H "x-session-affinity: $SESSION" \
  -d "$BODY"
"""
WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
surfaces = pytest.mark.parametrize("line", [OPENAI, WORKERS], ids=["v1", "ai/run"])


def curl(cell: ClientCell, line: str, messages: list[Any], **more: Any) -> Any:
    """One request; Workers AI's envelope is taken off."""
    answer = json.loads(typed(cell, line, messages, **more))
    return answer["result"] if line == WORKERS else answer


def typed(cell: ClientCell, line: str, messages: list[Any], **more: Any) -> str:
    """What curl printed."""
    model, session = more.pop("model", KIMI), more.pop("session", "none")
    body = json.dumps({"model": model, "messages": messages, **more})
    return run_shell(line, cell, model=model, session=session, body=body)


def user(words: str) -> dict[str, str]:
    return {"role": "user", "content": words}


def read(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "prompt": usage["prompt_tokens"],
        "cached": usage["prompt_tokens_details"]["cached_tokens"],
        "output": usage["completion_tokens"],
    }


@surfaces
def test_text_comes_with_its_usage(scripted_cell: ClientCell, line: str) -> None:
    answer = curl(scripted_cell, line, [user("Say hello.")])
    assert answer["choices"][0]["message"]["content"]
    check_usage(read(answer["usage"]))


def test_native_family_answers_in_its_own_shape(scripted_cell: ClientCell) -> None:
    answer = curl(scripted_cell, WORKERS, [user("Say hello.")], model=LLAMA)
    assert answer["response"]
    check_usage(read(answer["usage"]))


@surfaces
def test_stream_comes_as_events_and_ends_with_done(scripted_cell: ClientCell, line: str) -> None:
    wanted = {"stream": True, "stream_options": {"include_usage": True}}
    printed = typed(scripted_cell, line, [user("Say hello.")], **wanted)
    *events, end = [text.removeprefix("data: ") for text in printed.split("\n\n") if text]
    assert end == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert sum(bool(chunk["choices"]) for chunk in chunks) > 2
    check_usage(read(chunks[-1]["usage"]))


@surfaces
def test_tool_round(scripted_cell: ClientCell, session: str, line: str) -> None:
    scripted_cell.forget()
    given = {"tools": [{"type": "function", "function": WEATHER}], "session": session}
    messages: list[Any] = [user("CALL weather, then say what it is like there.")]
    asked = curl(scripted_cell, line, messages, **given)["choices"][0]
    assert asked["finish_reason"] == "tool_calls"
    (call,) = asked["message"]["tool_calls"]
    result = f"Rain in {json.loads(call['function']['arguments'])['city']}."
    messages += [
        asked["message"],
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]
    done = curl(scripted_cell, line, messages, **given)["choices"][0]["message"]["content"]
    check_tool_round(scripted_cell, {"results": [result], "text": done}, session)


@surfaces
def test_structured_output(scripted_cell: ClientCell, line: str) -> None:
    schema = {"name": "forecast", "schema": FORECAST}
    wanted = {"response_format": {"type": "json_schema", "json_schema": schema}}
    answer = curl(scripted_cell, line, [user("What will it be like?")], **wanted)
    told = json.loads(answer["choices"][0]["message"]["content"])
    assert told.keys() == {"city", "degrees"}


@surfaces
def test_conversation_is_one_session_and_says_its_cached_tokens(
    scripted_cell: ClientCell, session: str, line: str
) -> None:
    scripted_cell.forget()
    messages: list[Any] = [user(f"{session}: a long beginning. " * 8)]
    usages = []
    for words in ("Go on.", "Thank you."):
        answer = curl(scripted_cell, line, messages, session=session)
        usages.append(read(answer["usage"]))
        messages += [answer["choices"][0]["message"], user(words)]
    check_conversation(scripted_cell, usages, session)


@surfaces
@pytest.mark.parametrize(
    ("mistake", "statuses", "code"),
    [
        (UNKNOWN_MODEL, {OPENAI: 404, WORKERS: 400}, "model_not_found"),
        (WRONG_KEY, {OPENAI: 401, WORKERS: 401}, "unauthenticated"),
        (TOO_LONG, {OPENAI: 400, WORKERS: 400}, "context_length_exceeded"),
    ],
    ids=["unknown model", "wrong key", "too long"],
)
def test_mistakes_have_a_status_and_a_code(
    scripted_cell: ClientCell, line: str, mistake: dict[str, str], statuses: Any, code: str
) -> None:
    arguments = {"model": KIMI, "prompt": "Hi", "session": "none", **mistake}
    body = json.dumps({"model": arguments["model"], "messages": [user(arguments.pop("prompt"))]})
    # curl prints the status after the body, and calls no status a failure of its own.
    line_with_status = line.replace("curl -sS", r"curl -sS -w '\n%{http_code}'")
    printed = run_shell(line_with_status, scripted_cell, body=body, **arguments)
    answer, status = printed.rsplit("\n", 1)
    assert int(status) == statuses[line]
    assert json.loads(answer)["error"]["code"] == code
