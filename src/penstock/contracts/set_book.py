"""Writes sets of contracts, and reads them for operators. The only writer of these tables.

A set is all contracts at one time, applied as a whole. A contract's own version grows only when its
meaning changes: comments, order and spelling do not count.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from penstock.contracts.budget_terms import owned_limits
from penstock.contracts.document import SCHEMA, Contract
from penstock.contracts.reading import read_contract
from penstock.contracts.set_rows import (
    ContractRow,
    ContractSetRow,
    read_in_force,
    read_rows,
    read_version,
)
from penstock.contracts.settings import ContractsSettings
from penstock.errors import Conflict, InvalidRequest, NotFound
from penstock.records.limit import Limit
from penstock.store import Store, Transaction

# Serialises writers.
_LOCK: Final = "select set_id from contract_revision for update"
_MOVE: Final = "update contract_revision set set_id = %s"
_ADD_SET: Final = """
    insert into contract_sets (actor, message, from_set, schema) values (%s, %s, %s, %s)
    returning id
"""
_ADD: Final = "insert into contracts (set_id, name, version, document) values (%s, %s, %s, %s)"
# One row of each name by the index: all sets together have hundreds of thousands. Rows of the same
# version mean the same.
_NEWEST: Final = """
    select newest.name, newest.version, newest.document
    from unnest(%s::text[]) as wanted (name) cross join lateral (
        select name, version, document from contracts c
        where c.name = wanted.name order by c.version desc limit 1
    ) newest
"""
_NAMED: Final = """
    select name, version, document from contracts
    where set_id = (select set_id from contract_revision) and name = %s
"""
_SETS: Final = """
    select (select set_id from contract_revision),
        s.id, s.applied_at, s.actor, s.message, s.from_set,
        (select count(*) from contracts c where c.set_id = s.id)
    from contract_sets s order by s.id desc limit %s
"""
_OLD: Final = """
    select id from contract_sets
    where id <> %s and id not in (select id from contract_sets order by id desc limit %s)
    order by id limit 100
"""
_FORGET: Final = (
    "delete from contracts where set_id = any(%s)",
    "delete from contract_sets where id = any(%s)",
)


class Applied(msgspec.Struct, frozen=True):
    """A set that was applied, with the contracts whose version is new."""

    number: int
    changed: list[str]
    contracts: list[ContractRow]


class LimitWriter(Protocol):
    """The port to admission, which writes the limits that contracts own."""

    async def replace(self, transaction: Transaction, limits: Sequence[Limit]) -> None: ...


class ContractBook:
    """Applies sets with the limits that they own, goes back to old ones, and shows them."""

    def __init__(self, store: Store, settings: ContractsSettings, limits: LimitWriter) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits

    def check_sizes(self, documents: list[str]) -> None:
        """Refuse more or longer contracts than the settings allow, before any is read."""
        settings = self._settings
        if len(documents) > settings.contracts_max:
            raise InvalidRequest(
                f"{len(documents)} contracts are more than contracts.contracts_max,"
                f" {settings.contracts_max}.",
                param="documents",
            )
        longest = max((len(each.encode()) for each in documents), default=0)
        if longest > settings.document_bytes_max:
            raise InvalidRequest(
                f"A contract of {longest} bytes is longer than contracts.document_bytes_max,"
                f" {settings.document_bytes_max}.",
                param="documents",
            )

    async def apply(
        self,
        documents: dict[str, str],
        *,
        actor: str,
        message: str,
        base: int | None = None,
        from_set: int | None = None,
    ) -> Applied:
        """Make these texts, by the contracts' names, the set in force.

        `base` is the set that the caller saw; Conflict if another is in force by now.
        """
        async with self._store.transaction() as tx:
            await _lock(tx, base)
            versions, changed = await _versions(tx, documents)
            row = await tx.fetch_one(_ADD_SET, (actor, message, from_set, SCHEMA))
            assert row is not None, "insert returns its row"
            number = int(row[0])
            for name in sorted(documents):
                await tx.execute(_ADD, (number, name, versions[name], documents[name]))
            await tx.execute(_MOVE, (number,))
            owned = [owned_limits(read_contract(text)) for text in documents.values()]
            await self._limits.replace(tx, [limit for limits in owned for limit in limits])
            await self._forget_old(tx, number)
            rows = await read_rows(tx, number)
        return Applied(number, changed, rows)

    async def withdraw(self, *, base: int | None = None) -> Applied:
        """Let no contract be in force. The sets stay, to go back to."""
        async with self._store.transaction() as tx:
            before = await _lock(tx, base)
            await tx.execute(_MOVE, (0,))
            await self._limits.replace(tx, [])
            gone = [row.name for row in await read_rows(tx, before)]
        return Applied(0, gone, [])

    async def in_force(self) -> tuple[int, list[ContractRow]]:
        """Return the number of the set in force, and its contracts; 0 is none."""
        async with self._store.transaction() as tx:
            number = await read_in_force(tx)
            return number, await read_rows(tx, number)

    async def rows_of(self, number: int) -> list[ContractRow]:
        async with self._store.statement() as statement:
            rows = await read_rows(statement, number)
        if not rows:
            raise NotFound(f"There is no set {number}. `penstock contracts list` shows them.")
        return rows

    async def version(self, name: str, version: int) -> ContractRow:
        """Return one version of a contract, whichever sets had it."""
        async with self._store.statement() as statement:
            return await read_version(statement, name, version)

    async def named(self, name: str) -> ContractRow:
        """Return a contract of the set in force."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_NAMED, (name,))
        if row is None:
            raise NotFound(f"No contract {name} is in force. `penstock contracts list` shows them.")
        return ContractRow(*row)

    async def sets(self, limit: int = 100) -> tuple[int, list[ContractSetRow]]:
        """Return the number of the set in force, 0 for none, and the sets, newest first."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_SETS, (limit,))
        in_force = int(rows[0][0]) if rows else 0
        return in_force, [ContractSetRow(*row[1:]) for row in rows]

    async def _forget_old(self, tx: Transaction, number: int) -> None:
        old = [row[0] for row in await tx.fetch(_OLD, (number, self._settings.sets_max))]
        if old:
            for statement in _FORGET:
                await tx.execute(statement, (old,))


async def _lock(tx: Transaction, base: int | None) -> int:
    row = await tx.fetch_one(_LOCK)
    assert row is not None, "contract_revision has lost its row"
    number = int(row[0])
    if base is not None and base != number:
        raise Conflict(
            f"Set {number} is in force by now, and you saw {base or 'none'}: look at"
            " `penstock contracts diff`, and apply again."
        )
    return number


async def _versions(tx: Transaction, documents: dict[str, str]) -> tuple[dict[str, int], list[str]]:
    """Return each contract's version in a new set, and the names of those whose version is new."""
    newest = {row[0]: row for row in await tx.fetch(_NEWEST, (sorted(documents),))}
    versions, changed = {}, []
    for name, text in sorted(documents.items()):
        before = newest.get(name)
        if before is not None and (before[2] == text or _meaning(before[2]) == read_contract(text)):
            versions[name] = before[1]
        else:
            versions[name] = 1 if before is None else before[1] + 1
            changed.append(name)
    return versions, changed


def _meaning(document: str) -> Contract | None:
    try:
        return read_contract(document)
    except ValueError:
        # It was written for another release.
        return None
