"""Ten thousand requests, four workers that are started anew: one contract decides them alike.

Each worker has a memory of prompts of its own, and reads the requests in an order of its own.
Seeded.
"""

import json
import random
from typing import Any, Final

import msgspec
from tests.unit.contracts.contract_readers import contract_reader
from tests.unit.contracts.contract_samples import KEY

from penstock.clock import new_id
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.routes import find_route
from penstock.records.request import RequestId

_REQUESTS: Final = 10_000
_WORKERS: Final = 4
# A worker is started anew after so many requests, and has forgotten all prompts.
_LIFE: Final = 1500
_SEED: Final = 17
_CONTRACT: Final = """
schema = 1
name = "work"
output = { tokens_max = 500, choices_max = 1 }
tool_output = { bytes_max = 1024, tail_share = 0.3, exempt = ["read*"] }
[models]
default = "big"
class = { label = "small", long = "other" }
asked = "override"
rule = [
  { class = "label", when = { tools = 0, output_tokens_max = 64 } },
  { class = "long", when = { opening_bytes_min = 1500 } },
]
"""
_TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def test_the_same_request_is_decided_alike_by_every_worker() -> None:
    chosen = random.Random(_SEED)
    requests = [_request(chosen, number) for number in range(_REQUESTS)]
    seen: list[bytes | None] = [None] * _REQUESTS
    kinds: set[bytes] = set()
    cut = 0
    for worker in range(_WORKERS):
        order = list(range(_REQUESTS))
        random.Random(worker).shuffle(order)
        for place, number in enumerate(order):
            if place % _LIFE == 0:
                reader = contract_reader(_CONTRACT)
            target, headers, body = requests[number]
            route, caller = find_route(target), CallerHeaders(headers)
            read = reader.read(RequestId(new_id()), route, caller, KEY, body)
            labels = read.labels
            kinds.add(f"{labels.task} {read.model.id} {labels.model_asked}".encode())
            cut += b"left out here: contract work]" in bytes(read.prompt.body["messages"])
            made = msgspec.json.encode(
                [labels.contract, labels.task, labels.model_asked, read.model.id, read.prompt.body]
            )
            assert seen[number] in (None, made), (worker, number)
            seen[number] = made
    # The contract chose: several classes, and models that callers did not name.
    assert len(kinds) >= 4
    # Outputs of tools were cut, and not in all requests.
    assert 0.05 < cut / (_WORKERS * _REQUESTS) < 0.5


def _called(chosen: random.Random, turn: int) -> list[dict[str, Any]]:
    """Return a tool's call and its output, or nothing; equal outputs recur among requests."""
    kind = chosen.choice(("", "", "text", "json", "short"))
    if not kind:
        return []
    lines = [f"line {number} of {turn}" for number in range(chosen.choice((60, 300)))]
    output = {"text": "\n".join(lines), "json": json.dumps(lines), "short": lines[0]}[kind]
    function = {"name": chosen.choice(("look", "look", "read_file")), "arguments": "{}"}
    call = {"id": "c1", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": output},
    ]


def _as_blocks(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a chat as one of Messages."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": "c1", "content": message["content"]}
        return {"role": "user", "content": [result]}
    if "tool_calls" in message:
        name = message["tool_calls"][0]["function"]["name"]
        use = {"type": "tool_use", "id": "c1", "name": name, "input": {}}
        return {"role": "assistant", "content": [use]}
    return message


def _request(chosen: random.Random, number: int) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
    turns = chosen.choice([1, 1, 2, 5])
    messages: list[dict[str, Any]] = [{"role": "system", "content": f"You are {number % 40}."}]
    for turn in range(turns):
        content = f"question {turn} " + "word " * chosen.choice([1, 20, 400])
        messages += [{"role": "user", "content": content}]
        if turn + 1 < turns:
            messages += [{"role": "assistant", "content": f"answer {turn}"}]
            messages += _called(chosen, turn)
    body: dict[str, Any] = {"model": chosen.choice(["auto", "small", "big"])}
    if chosen.random() < 0.5:
        body["tools"] = [_TOOL]
    if chosen.random() < 0.7:
        body["max_tokens"] = chosen.choice([8, 64, 4000])
    if chosen.random() < 0.2:
        body["n"] = 3
    headers = [(b"x-penstock-workflow", b"work")]
    if chosen.random() < 0.2:
        headers.append((b"x-penstock-task", chosen.choice([b"label", b"unknown"])))
    target = chosen.choice([b"/v1/chat/completions", b"/v1/messages"])
    if target == b"/v1/messages":
        messages = [_as_blocks(message) for message in messages]
        body = {name: value for name, value in body.items() if name not in ("tools", "n")}
        body = {"max_tokens": 100, **body, "messages": messages[1:]}
    else:
        body["messages"] = messages
    return target, headers, msgspec.json.encode(body)
