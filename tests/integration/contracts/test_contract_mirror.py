"""A gateway's copy of the set in force: it never takes a set that is gone for none at all."""

import asyncio
import logging

import pytest
from tests.integration.contracts.contract_cell import apply_texts, contract

from penstock.catalogue import Catalogue
from penstock.contracts import set_mirror
from penstock.contracts.compiling import check_texts
from penstock.contracts.contract_error import ContractError
from penstock.contracts.set_mirror import ContractMirror
from penstock.contracts.settings import ContractsSettings
from penstock.store import Store

_FORGET = ("delete from contracts", "delete from contract_sets")


async def _nothing_to_await() -> None:
    pass


def _mirror(store: Store) -> ContractMirror:
    return ContractMirror(store, Catalogue([]), ContractsSettings(), _nothing_to_await)


async def _execute(store: Store, *statements: str) -> None:
    async with store.transaction() as tx:
        for statement in statements:
            await tx.execute(statement)


async def test_a_set_that_was_deleted_before_it_was_read_leaves_the_one_before(
    store: Store,
) -> None:
    await apply_texts(store, contract("a"))
    mirror = _mirror(store)
    await mirror.load()
    first = mirror.number
    await apply_texts(store, contract("b"))
    await _execute(store, *_FORGET)
    await mirror._refresh()
    assert (mirror.number, "is deleted" in mirror.problem) == (first, True)
    with pytest.raises(ContractError, match="is deleted"):
        await _mirror(store).load()
    await _execute(store, "update contract_revision set set_id = 0")
    await mirror._refresh()
    assert (mirror.number, mirror.problem, mirror.current.in_force) == (0, "", None)


async def test_a_restored_database_may_give_a_number_a_second_time(store: Store) -> None:
    before = await apply_texts(store, contract("a"))
    mirror = _mirror(store)
    await mirror.load()
    await _execute(
        store,
        *_FORGET,
        f"alter table contract_sets alter column id restart with {before.number}",
    )
    again = await apply_texts(store, contract("b"))
    assert again.number == before.number
    await mirror._refresh()
    assert mirror.current.in_force is not None
    assert list(mirror.current.in_force.by_name) == ["b"]


async def test_whatever_stops_compiling_is_a_problem_that_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    mirror = _mirror(store)
    await mirror.load()
    await apply_texts(store, contract("a"))
    monkeypatch.setattr(set_mirror, "compile_set", fail)
    with caplog.at_level(logging.ERROR):
        await mirror._refresh()
    assert (mirror.number, "too deep" in mirror.problem) == (0, True)


async def test_a_set_that_a_later_release_would_refuse_goes_on(store: Store) -> None:
    """It was checked when it was applied; a gateway that is updated must start with it."""
    text = contract("a", 'tools = { default = "allow", deny = ["no|name"] }')
    with pytest.raises(ContractError, match="matches no tool"):
        check_texts({"a.toml": text}, Catalogue([]))
    applied = await apply_texts(store, text)
    mirror = _mirror(store)
    await mirror.load()
    assert (mirror.number, mirror.problem) == (applied.number, "")


async def test_a_set_is_taken_when_the_limits_that_came_with_it_hold(store: Store) -> None:
    await apply_texts(store, contract("a"))
    held, asked = asyncio.Event(), asyncio.Event()

    async def limits_hold() -> None:
        asked.set()
        await held.wait()

    mirror = ContractMirror(store, Catalogue([]), ContractsSettings(), limits_hold)
    # At the start limits are loaded after contracts.
    await mirror.load()
    first = mirror.number
    second = await apply_texts(store, contract("b"))
    refreshing = asyncio.ensure_future(mirror._refresh())
    await asyncio.wait_for(asked.wait(), 5)
    assert mirror.number == first
    held.set()
    await refreshing
    assert mirror.number == second.number
