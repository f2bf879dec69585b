"""Contracts in a cell of tests: written as text, applied, and seen by the gateway."""

import re
from typing import Any

from tests.integration.cells.gateway_cell import Cell
from tests.integration.cells.gateway_process import eventually

from penstock.admission import OwnedLimits
from penstock.contracts.reading import read_contract
from penstock.contracts.set_book import Applied, ContractBook
from penstock.contracts.settings import ContractsSettings
from penstock.store import Store

# A gateway asks for changes so often, in these tests.
REFRESH = {"contracts.refresh_seconds": 0.1}


def contract(name: str, rest: str = "", models: str = "") -> str:
    """The text of a contract; `models` are the lines of its table."""
    table = f"\n[models]\n{models}\n" if models else ""
    return f'schema = 1\nname = "{name}"\n{rest}\n{table}'


async def apply_texts(store: Store, *texts: str, message: str = "") -> Applied:
    """Apply texts as they are, also ones that a gateway's catalogue does not fit."""
    documents = {_name_of(text): text for text in texts}
    book = ContractBook(store, ContractsSettings(), OwnedLimits())
    return await book.apply(documents, actor="", message=message)


def in_force(cell: Cell, *texts: str) -> Applied:
    """Apply contracts, and wait until the cell's gateway decides by them."""
    applied = cell.run(lambda store: apply_texts(store, *texts))
    eventually(lambda: f'"set":{applied.number}}}' in _applied_lines(cell))
    return applied


def decided(cell: Cell, request: str, key: str | None = None) -> list[dict[str, Any]]:
    """The decisions about a request, when they are there."""
    eventually(lambda: bool(decision_rows(cell, {"request": request}, key)))
    return decision_rows(cell, {"request": request}, key)


def decision_rows(
    cell: Cell, asked: dict[str, Any], key: str | None = None
) -> list[dict[str, Any]]:
    """The decisions that a key sees, newest first."""
    answer = cell.client.get(
        f"{cell.gateway.url}/v1/decisions",
        params=asked,
        headers={"authorization": f"Bearer {key or cell.key}"},
    )
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def _applied_lines(cell: Cell) -> str:
    log = cell.gateway.log_text()
    return re.sub(r"\s", "", "".join(line for line in log.splitlines() if "contracts_app" in line))


def _name_of(text: str) -> str:
    return read_contract(text).name
