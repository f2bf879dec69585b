"""A real model calls a tool because it must: a contract decides whether an agent runs it."""

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.client_cell import SMOLLM, ClientCell
from tests.acceptance.client_contracts import ERROR, NOTE, apply_contracts, check_words
from tests.acceptance.client_run import run_python
from tests.engine.real_cell import Cell


@pytest.fixture(scope="module")
def contracted_cell(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> ClientCell:
    apply_contracts(Path(cell.state), tmp_path_factory.mktemp("contracts"))
    return ClientCell(cell)


def run(cell: ClientCell, workflow: str) -> Any:
    """One run of an agent that calls `bash` and then answers."""
    given = {"model": SMOLLM, "workflow": workflow, "prompt": "List the files."}
    return run_python("agents_contract.py", cell, case="forced", **given)


def test_a_forced_call_is_run_only_without_a_contract_against_it(
    contracted_cell: ClientCell,
) -> None:
    free = run(contracted_cell, "")
    assert free["ran"] in (["bash ls"], ["bash pwd"])
    refused = run(contracted_cell, ERROR)
    assert refused["ran"] == []
    check_words(refused["raised"], ERROR, "bash")
    noted = run(contracted_cell, NOTE)
    assert noted["ran"] == []
    check_words(noted["text"], NOTE, "bash")
