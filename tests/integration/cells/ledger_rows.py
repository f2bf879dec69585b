"""The ledger's rows of a request that a whole gateway served."""

from typing import Any

from tests.integration.cells.gateway_cell import Cell
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.metering_lines import attempts

from penstock.store import Store

Row = dict[str, Any]


def rows_of(cell: Cell, request_id: str, count: int = 1) -> list[Row]:
    """A request's rows, as soon as they are all drained."""

    async def read(store: Store) -> list[Row]:
        return [row for row in await attempts(store) if row["request"] == request_id]

    found: list[Row] = []

    def is_there() -> bool:
        found[:] = cell.run(read)
        return len(found) >= count

    eventually(is_there)
    assert len(found) == count
    return found
