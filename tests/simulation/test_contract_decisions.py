"""Ten thousand requests, four workers that are started anew: one contract decides them alike.

Each worker has a memory of prompts of its own, and reads the requests in an order of its own.
Seeded.
"""

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
            made = msgspec.json.encode(
                [labels.contract, labels.task, labels.model_asked, read.model.id, read.prompt.body]
            )
            assert seen[number] in (None, made), (worker, number)
            seen[number] = made
    # The contract chose: several classes, and models that callers did not name.
    assert len(kinds) >= 4


def _request(chosen: random.Random, number: int) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
    turns = chosen.choice([1, 1, 2, 5])
    messages: list[dict[str, Any]] = [{"role": "system", "content": f"You are {number % 40}."}]
    for turn in range(turns):
        content = f"question {turn} " + "word " * chosen.choice([1, 20, 400])
        messages += [{"role": "user", "content": content}]
        if turn + 1 < turns:
            messages += [{"role": "assistant", "content": f"answer {turn}"}]
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
        body = {name: value for name, value in body.items() if name not in ("tools", "n")}
        body = {"max_tokens": 100, **body, "messages": messages[1:]}
    else:
        body["messages"] = messages
    return target, headers, msgspec.json.encode(body)
