"""Streams that tell their usage at their end only: hanging up before it passes no limit."""

import json
import time
from typing import Any

import pytest
from tests.integration.gateway_cell import CHAT
from tests.integration.test_limits_gateway import set_limit

from penstock.records.limit import Measure, Period

TOKENS = 300
SCRIPT = "hello\n@script " + json.dumps({"tokens": TOKENS, "interval": 0.001})
SAID = [{"role": "user", "content": SCRIPT}]
CASES: dict[str, tuple[dict[str, object], str]] = {
    "/v1/responses": (
        {"input": SCRIPT, "max_output_tokens": 400},
        "event: response.output_text.delta",
    ),
    "/v1/messages": ({"messages": SAID, "max_tokens": 400}, "event: content_block_delta"),
    "/v1/chat/completions": ({"messages": SAID, "max_tokens": 400}, '"delta":{"content"'),
}


@pytest.mark.parametrize("path", CASES)
@pytest.mark.parametrize(
    ("measure", "amount"), [(Measure.TOKENS, 1000), (Measure.NANOUSD, 3_000_000)]
)
def test_who_hangs_up_before_the_last_words_is_held_to_the_limit(
    cells: Any, path: str, measure: Measure, amount: int
) -> None:
    fields, piece = CASES[path]
    settings = {"admission.limits_refresh_seconds": 0.1, "metering.drain_seconds": 0.05}
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        secret = set_limit(cell, measure, Period.DAY, amount)
        time.sleep(0.5)
        had = 0
        while had < 10 and has_most_of_an_answer(cell, secret, path, fields, piece):
            had += 1
        # The limit is worth about three answers.
        assert 1 <= had <= 4


def has_most_of_an_answer(
    cell: Any, secret: str, path: str, fields: dict[str, object], piece: str
) -> bool:
    body = {"model": CHAT, "stream": True, **fields}
    headers = {"authorization": f"Bearer {secret}"}
    url = cell.gateway.url + path
    with cell.client.stream("POST", url, json=body, headers=headers) as answer:
        if answer.status_code != 200:
            return False
        got = ""
        for text in answer.iter_text():
            got += text
            if got.count(piece) >= TOKENS - 10:
                break
    return True
