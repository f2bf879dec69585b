"""The statements on sets of contracts."""

from datetime import datetime
from typing import Final

import msgspec

from penstock.errors import NotFound
from penstock.store import Transaction

_IN_FORCE: Final = "select set_id from contract_revision"
_MARK: Final = """
    select r.set_id, s.applied_at from contract_revision r
    left join contract_sets s on s.id = r.set_id
"""
_VERSION: Final = """
    select name, version, document from contracts where name = %s and version = %s
    order by set_id desc limit 1
"""
_ROWS: Final = "select name, version, document from contracts where set_id = %s order by name"


class ContractRow(msgspec.Struct, frozen=True):
    """One contract of a set: the TOML as it was written."""

    name: str
    version: int
    document: str


class ContractSetRow(msgspec.Struct, frozen=True):
    """One set, without its contracts. `actor` is the id of a key; "" is the database itself."""

    number: int
    applied_at: datetime
    actor: str
    message: str
    from_set: int | None
    contracts: int


async def read_in_force(statement: Transaction) -> int:
    """Return the number of the set in force; 0 is none."""
    row = await statement.fetch_one(_IN_FORCE)
    assert row is not None, "contract_revision has lost its row"
    return int(row[0])


async def read_mark(statement: Transaction) -> tuple[int, datetime | None]:
    """Return the number of the set in force, and when it was applied.

    A database that was restored gives numbers a second time: together they tell sets apart.
    """
    row = await statement.fetch_one(_MARK)
    assert row is not None, "contract_revision has lost its row"
    return int(row[0]), row[1]


async def read_rows(statement: Transaction, number: int) -> list[ContractRow]:
    """Return a set's contracts, by name."""
    return [ContractRow(*row) for row in await statement.fetch(_ROWS, (number,))]


async def read_version(statement: Transaction, name: str, version: int) -> ContractRow:
    """Return one version of a contract, whichever sets had it."""
    row = await statement.fetch_one(_VERSION, (name, version))
    if row is None:
        raise NotFound(f"There is no contract {name}@{version}.")
    return ContractRow(*row)
