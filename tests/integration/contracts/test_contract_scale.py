"""Five hundred contracts reach four workers in seconds, while requests go on."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.contracts.contract_cell import contract

from penstock.admission import OwnedLimits
from penstock.contracts.set_book import Applied, ContractBook
from penstock.contracts.settings import ContractsSettings
from penstock.store import Store

_WORKERS = 4
_CONTRACTS = 500
_PER_SECOND = 200
_SECONDS = 3.0
_RULES = f"""
default = "{CHAT}"
asked = "override"
rule = [{{ class = "default", when = {{ tools = 0, output_tokens_max = 64 }} }}]
"""


def test_five_hundred_contracts_reach_four_workers_under_load(cells: CellFactory) -> None:
    with cells.open({"ingress.workers": _WORKERS}) as cell:
        cell.set_up(CHAT)
        eventually(lambda: cell.gateway.metric("penstock_workers") == _WORKERS)
        documents = {f"w{n}": contract(f"w{n}", "", _RULES) for n in range(_CONTRACTS)}

        async def apply(store: Store) -> Applied:
            book = ContractBook(store, ContractsSettings(), OwnedLimits())
            return await book.apply(documents, actor="", message="")

        with _load(cell) as statuses:
            eventually(lambda: statuses[200] > _PER_SECOND)
            applied = cell.run(apply)
            began = time.monotonic()
            eventually(lambda: _workers_with(cell, applied.number) == _WORKERS)
            took = time.monotonic() - began
            counted = statuses[200]
            eventually(lambda: statuses[200] > counted + _PER_SECOND)
        assert took <= _SECONDS
        assert set(statuses) == {200}
        headers = {"x-penstock-workflow": f"w{_CONTRACTS - 1}"}
        answer = cell.post("/v1/chat/completions", chat_body("auto"), headers=headers)
        assert answer.headers["x-penstock-contract"] == f"w{_CONTRACTS - 1}@1"


def _workers_with(cell: Cell, number: int) -> int:
    lines = cell.gateway.log_text().splitlines()
    return sum(1 for line in lines if "contracts_applied" in line and f'"set":{number}' in line)


@contextmanager
def _load(cell: Cell) -> Iterator[Counter[int]]:
    """Requests of several workflows at a fixed rate, in a thread; their statuses."""
    statuses: Counter[int] = Counter()
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_ask(cell, statuses, over)))
    thread.start()
    try:
        yield statuses
    finally:
        over.set()
        thread.join()


async def _ask(cell: Cell, statuses: Counter[int], over: threading.Event) -> None:
    url = f"{cell.gateway.url}/v1/chat/completions"
    began, count = time.monotonic(), 0
    async with (
        httpx.AsyncClient(headers=cell.authorization(), timeout=30, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):

        async def one(number: int) -> None:
            headers = {"x-penstock-workflow": f"w{number % _CONTRACTS}"}
            body = chat_body(CHAT, {"tokens": 1})
            try:
                answer = await client.post(url, json=body, headers=headers)
            except httpx.HTTPError:
                statuses[0] += 1
            else:
                statuses[answer.status_code] += 1

        while not over.is_set():
            count += 1
            group.create_task(one(count))
            await asyncio.sleep(max(0.0, began + count / _PER_SECOND - time.monotonic()))
