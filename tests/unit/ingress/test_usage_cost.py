"""The cost in `usage`, for who asks: exact, and nothing else of the answer changes."""

import json
from typing import Any

import pytest

from penstock.ingress.inference.usage_cost import UsageCost
from penstock.records.price import Price
from penstock.records.request import Api

# $0.60, $0.10 and $3.00 for a million tokens.
PRICE = Price(600_000_000, 100_000_000, 3_000_000_000, 10_000)
COUNTS = {
    "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
    "prompt_tokens_details": {"cached_tokens": 900},
}  # fmt: skip
# 100 times 0.60, 900 times 0.10 and 10 times 3.00, of a millionth dollar.
COST = 0.00018


def compact(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def test_whole_answer_gets_its_cost_and_keeps_everything_else() -> None:
    answer = {"id": "x", "choices": [{"message": {"content": 'é "usage":{'}}], "usage": COUNTS}
    priced = json.loads(UsageCost(Api.CHAT, PRICE).answer(compact(answer)))
    assert priced["usage"].pop("cost") == COST
    assert priced == answer


def test_only_the_events_with_a_count_change() -> None:
    token = b"data: " + compact({"choices": [{"delta": {"content": '"usage"'}}]}) + b"\n\n"
    count = b"data: " + compact({"choices": [], "usage": COUNTS}) + b"\n\n"
    none = b"data: " + compact({"choices": [], "usage": None}) + b"\n\n"
    end = b"data: [DONE]\n\n"
    shaper = UsageCost(Api.CHAT, PRICE)
    assert shaper.events(token) == token
    shaped = shaper.events(token + none + count + end)
    assert shaped.startswith(token + none)
    assert shaped.endswith(b"\n\n" + end)
    priced = json.loads(shaped.split(b"\n\n")[2].removeprefix(b"data: "))
    assert priced == {"choices": [], "usage": {**COUNTS, "cost": COST}}


def test_responses_have_it_in_their_last_event() -> None:
    usage = {
        "input_tokens": 1000, "output_tokens": 10,
        "input_tokens_details": {"cached_tokens": 900},
    }  # fmt: skip
    body = {"type": "response.completed", "response": {"id": "r", "usage": usage}}
    event = b"event: response.completed\ndata: " + compact(body) + b"\n\n"
    shaped = UsageCost(Api.RESPONSES, PRICE).events(event)
    name, data = shaped.rstrip().split(b"\ndata: ")
    assert name == b"event: response.completed"
    assert json.loads(data)["response"]["usage"] == {**usage, "cost": COST}


@pytest.mark.parametrize(
    "answer", [b"{}", b'{"usage":null}', b'{"usage":{"prompt_tokens":-1}}', b"["]
)
def test_what_has_no_count_stays_as_it_is(answer: bytes) -> None:
    assert UsageCost(Api.CHAT, PRICE).answer(answer) == answer
