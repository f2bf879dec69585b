"""`/v1/routing/explain` shows a runtime key no counts of what other accounts do at a replica."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body, prompt
from tests.integration.cells.gateway_process import eventually

_EXPLAIN = "/v1/routing/explain"
_ABSOLUTE = {
    "wait_seconds", "own_seconds", "harm_seconds", "full_seconds", "cost_seconds", "in_flight",
}  # fmt: skip
_OPEN = 3


@pytest.fixture
def busy(cells: CellFactory) -> Iterator[Cell]:
    """Another account has three long streams at one of two replicas."""
    with cells.open() as cell:
        cell.set_up(CHAT)
        cell.enroll(cell.add_engine().url, CHAT)
        cell.wait_for_replicas(CHAT, 2)
        _, _, other = cell.add_account("other")
        ended = threading.Event()
        streams = [
            threading.Thread(target=hold_stream, args=(cell.gateway.url, other, ended))
            for _ in range(_OPEN)
        ]
        for stream in streams:
            stream.start()
        eventually(lambda: cell.gateway.metric("penstock_in_flight") == _OPEN)
        yield cell
        ended.set()
        for stream in streams:
            stream.join()


def hold_stream(url: str, key: str, ended: threading.Event) -> None:
    body = chat_body(script={"tokens": 10_000, "interval": 0.05}, stream=True)
    headers = {"authorization": f"Bearer {key}", "x-session-affinity": "one"}
    address = f"{url}/v1/chat/completions"
    with httpx.stream("POST", address, json=body, headers=headers, timeout=30) as answer:
        for _ in answer.iter_lines():
            if ended.is_set():
                return


def explain(cell: Cell, key: str, query: str = "") -> list[dict[str, Any]]:
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": CHAT, "messages": prompt()}
    answer = cell.post(f"{_EXPLAIN}{query}", body, headers=headers)
    assert answer.status_code == 200, answer.text
    candidates: list[dict[str, Any]] = answer.json()["candidates"]
    return candidates


def test_a_runtime_key_gets_ratios_and_an_operator_key_counts_and_seconds(busy: Cell) -> None:
    seen = explain(busy, busy.key)
    assert len(seen) == 2
    for candidate in seen:
        assert {candidate.get(name) for name in _ABSOLUTE} == {None}
    assert {each["load_ratio"] for each in seen} <= {0.0, 1.0, 0.5}
    assert min(each["cost_ratio"] for each in seen) == 1.0

    told = explain(busy, busy.operator_key, f"?account={busy.account}")
    assert sum(each["in_flight"] for each in told) == _OPEN
    for candidate in told:
        assert all(candidate[name] is not None for name in _ABSOLUTE)
