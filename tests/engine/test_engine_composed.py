"""Responses composed of a real engine's chat answers: text, counts, cache, calls."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.engine.real_cell import TEXT_MODEL, Cell, running_up

from penstock.catalogue.models import BUILTIN_FOLDER

# SmolLM2's cache has blocks of 128 tokens.
_BLOCK = 128
_LONG = "The penstock feeds the turbine with water from the dam above it, and the gate closes. "
_TURNS = 5
LOOK: Any = {
    "type": "function",
    "name": "look",
    "description": "Look at a room.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"room": {"type": "string", "enum": ["kitchen", "hall"]}},
        "required": ["room"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def client(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """A second cell in front of the same engine, whose catalogue asks it by chat."""
    folder = tmp_path_factory.mktemp("composed")
    (folder / "models").mkdir()
    _write_entry(folder / "models")
    engine = cell.engine(TEXT_MODEL)
    keys = f'[engine]\napi_keys = {{ "{engine.url}" = "{engine.engine_key}" }}\n'
    (folder / "penstock.toml").write_text(f'[catalogue]\nfolder = "models"\n{keys}')
    with (
        running_up(folder, "--attach", engine.url) as attached,
        openai.OpenAI(base_url=attached.openai_url, api_key=attached.key, max_retries=0) as made,
    ):
        yield made


def _write_entry(folder: Path) -> None:
    entry = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    (folder / "smollm2.toml").write_text(f'responses = "chat"\n{entry}')


def test_text_is_that_of_the_chat_answer(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": "What is the capital of France?"}]
    chat = client.chat.completions.create(model=TEXT_MODEL, messages=asked, max_tokens=24)
    whole = client.responses.create(model=TEXT_MODEL, input=asked, max_output_tokens=24)
    with client.responses.stream(model=TEXT_MODEL, input=asked, max_output_tokens=24) as stream:
        list(stream)
        streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text == chat.choices[0].message.content
    assert chat.usage is not None
    for response in (whole, streamed):
        assert response.usage is not None
        assert response.usage.input_tokens == chat.usage.prompt_tokens
        assert response.usage.output_tokens == chat.usage.completion_tokens


def test_tokens_are_counted_as_they_are_used(client: openai.OpenAI) -> None:
    asked: Any = {"instructions": "Be brief.", "input": _LONG * 5, "tools": [LOOK]}
    counted = client.responses.input_tokens.count(model=TEXT_MODEL, **asked)
    used = client.responses.create(model=TEXT_MODEL, max_output_tokens=1, **asked)
    assert used.usage is not None
    assert counted.input_tokens == used.usage.input_tokens


def test_turns_of_a_conversation_are_found_in_the_cache(client: openai.OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": "Tell me about it. " + _LONG * 90}]
    before = 0
    for turn in range(_TURNS):
        response = client.responses.create(model=TEXT_MODEL, input=items, max_output_tokens=16)
        usage = response.usage
        assert usage is not None
        assert usage.input_tokens >= 1500
        if turn:
            least = _BLOCK * (before // _BLOCK) - _BLOCK
            assert usage.input_tokens_details.cached_tokens >= least
        before = usage.input_tokens
        items += [item.model_dump(exclude_none=True) for item in response.output]
        items.append({"role": "user", "content": f"Go on, please, with part {turn}."})


def test_stored_turns_are_found_in_the_cache_of_their_replica(client: openai.OpenAI) -> None:
    """Whichever way a turn ran: its messages begin those of the next one."""
    asked, previous, before = "Tell me about it. " + _LONG * 90, None, 0
    replicas = set()
    for turn in range(_TURNS):
        made = client.responses.with_raw_response.create(
            model=TEXT_MODEL,
            input=asked,
            max_output_tokens=16,
            store=True,
            previous_response_id=previous,
        )
        replicas.add(made.headers["x-penstock-replica"])
        response = made.parse()
        usage = response.usage
        assert usage is not None
        assert usage.input_tokens >= 1500
        if turn:
            least = _BLOCK * (before // _BLOCK) - _BLOCK
            assert usage.input_tokens_details.cached_tokens >= least
        before, previous = usage.input_tokens, response.id
        asked = f"Go on, please, with part {turn}."
    assert len(replicas) == 1
    later = client.responses.create(
        model=TEXT_MODEL,
        input=asked,
        max_output_tokens=16,
        background=True,
        previous_response_id=previous,
    )
    while later.status in ("queued", "in_progress"):
        time.sleep(0.5)
        later = client.responses.retrieve(later.id)
    assert later.status in ("completed", "incomplete")
    assert later.usage is not None
    least = _BLOCK * (before // _BLOCK) - _BLOCK
    assert later.usage.input_tokens_details.cached_tokens >= least


def test_forced_call_and_its_output(client: openai.OpenAI) -> None:
    question: Any = {"role": "user", "content": "Which room is lit?"}
    choice: Any = {"type": "function", "name": "look"}
    with client.responses.stream(
        model=TEXT_MODEL, input=[question], tools=[LOOK], tool_choice=choice, max_output_tokens=60
    ) as stream:
        list(stream)
        first = stream.get_final_response()
    (call,) = first.output
    assert call.type == "function_call"
    assert json.loads(call.arguments)["room"] in ("kitchen", "hall")
    answered = {"type": "function_call_output", "call_id": call.call_id, "output": "It is lit."}
    items: Any = [question, call.model_dump(exclude_none=True), answered]
    second = client.responses.create(
        model=TEXT_MODEL, input=items, tools=[LOOK], max_output_tokens=16
    )
    assert second.output_text
