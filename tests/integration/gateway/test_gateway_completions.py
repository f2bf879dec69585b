"""`/v1/completions` through a gateway: the same bytes, counted, billed and routed like chat."""

import json
import re
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai, check_request_id
from tests.integration.cells.gateway_cell import CHAT, PRIVATE, SERVED, Cell, events_of
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.metering_lines import attempts

from penstock.store import Store
from penstock.testing import ScriptedEngine

PATH = "/v1/completions"
# The test models' prices: $0.60 and $3 per million tokens.
_INPUT, _OUTPUT = 600, 3000
_VARYING = re.compile(r'"id":"cmpl-[^"]+"|"created":\d+|"model":"[^"]+"')
Body = dict[str, Any]


def _body(script: Body | None = None, **fields: object) -> Body:
    text = "once" if script is None else f"once\n@script {json.dumps(script)}"
    return {"model": CHAT, "prompt": text, **fields}


def _sent(engine: ScriptedEngine) -> Body:
    last = engine.state().last_request
    assert last is not None
    body: Body = json.loads(last["body"])
    return body


def _row(cell: Cell, request_id: str) -> Body:
    async def read(store: Store) -> list[Body]:
        return [row for row in await attempts(store) if row["request"] == request_id]

    found: list[Body] = []

    def is_there() -> bool:
        found[:] = cell.run(read)
        return bool(found)

    eventually(is_there)
    (row,) = found
    return row


def test_a_prompt_is_completed_on_both_surfaces(cell: Cell, engine: ScriptedEngine) -> None:
    for path in (PATH, cell.path("v1/completions")):
        answer = cell.post(path, _body({"text": "upon a time"}))
        assert answer.status_code == 200, answer.text
        assert answer.json()["object"] == "text_completion"
        assert answer.json()["choices"][0]["text"] == "upon a time"
    sent = _sent(engine)
    assert sent["prompt"].startswith("once")
    assert (sent["model"], sent["max_tokens"]) == (SERVED, 4096)
    assert sent["cache_salt"]


@pytest.mark.parametrize("options", [None, {"include_usage": True}])
def test_a_stream_is_byte_for_byte_what_the_engine_says_to_that_body(
    cell: Cell, engine: ScriptedEngine, options: Body | None
) -> None:
    asked = _body({"tokens": 6}, stream=True, max_tokens=50)
    if options is not None:
        asked["stream_options"] = options
    # The first stream of a replica teaches its fingerprint.
    cell.post(PATH, asked)
    ours = cell.post(PATH, asked).text
    own = {**asked, "model": SERVED, "cache_salt": _sent(engine)["cache_salt"]}
    theirs = httpx.post(engine.url + PATH, json=own).text
    assert _VARYING.sub("", ours) == _VARYING.sub("", theirs)
    assert events_of(ours)[-1] == "[DONE]"


def test_what_it_cost_is_said_and_stands_in_the_ledger(cell: Cell) -> None:
    answer = cell.post(PATH, {"model": CHAT, "prompt": ["one", "two two"], "n": 2, "max_tokens": 3})
    usage = answer.json()["usage"]
    assert len(answer.json()["choices"]) == 4
    nano = usage["prompt_tokens"] * _INPUT + usage["completion_tokens"] * _OUTPUT
    assert answer.headers["x-penstock-cost-usd"] == f"{nano / 10**9:.9f}"
    row = _row(cell, check_request_id(answer.headers))
    assert row["prompt_tokens"] == usage["prompt_tokens"]
    assert row["output_tokens"] == usage["completion_tokens"] == 12


def test_a_stream_that_is_cut_is_counted_up_to_there(cell: Cell) -> None:
    answer = cell.post(PATH, _body({"tokens": 9, "cut_after": 3}, stream=True))
    assert any(event.startswith('{"error"') for event in events_of(answer.text))
    row = _row(cell, check_request_id(answer.headers))
    assert row["output_tokens"] == 3


def test_a_prompt_that_comes_again_goes_where_it_is_cached(cell: Cell) -> None:
    body = _body(prompt="a long beginning " * 500, max_tokens=4)
    cell.post(PATH, body)
    again = cell.post(PATH, {**body, "prompt": body["prompt"] + " and more"})
    cached = again.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 1000
    assert int(again.headers["x-penstock-cache-expected"]) > 1000


def test_what_is_wrong_is_refused_in_the_shape_of_its_surface(cell: Cell) -> None:
    missing = {"model": CHAT}
    assert "`prompt`" in check_openai(cell.post(PATH, missing), 400, "invalid_request")
    check_envelope(cell.post(cell.path("v1/completions"), missing), 400, 5006)
    check_openai(cell.post(PATH, {"model": PRIVATE, "prompt": "a"}), 403, "model_not_allowed")
    queued = _body(service_tier="flex")
    assert "queued" in check_openai(cell.post(PATH, queued), 400, "invalid_request")
