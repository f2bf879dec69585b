"""Contracts in a cell of tests: written as text, applied, and seen by the gateway."""

import re

from tests.integration.cells.gateway_cell import Cell
from tests.integration.cells.gateway_process import eventually

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
    book = ContractBook(store, ContractsSettings())
    return await book.apply(documents, actor="", message=message)


def in_force(cell: Cell, *texts: str) -> Applied:
    """Apply contracts, and wait until the cell's gateway decides by them."""
    applied = cell.run(lambda store: apply_texts(store, *texts))
    eventually(lambda: f'"set":{applied.number}}}' in _applied_lines(cell))
    return applied


def _applied_lines(cell: Cell) -> str:
    log = cell.gateway.log_text()
    return re.sub(r"\s", "", "".join(line for line in log.splitlines() if "contracts_app" in line))


def _name_of(text: str) -> str:
    return read_contract(text).name
