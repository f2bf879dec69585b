"""Sets of contracts in Postgres: versions by meaning, going back, and two who apply at once."""

import asyncio

import pytest
from tests.integration.contracts.contract_cell import apply_texts, contract

from penstock.admission import OwnedLimits
from penstock.contracts.set_book import ContractBook
from penstock.contracts.settings import ContractsSettings
from penstock.errors import Conflict, InvalidRequest, NotFound
from penstock.store import Store


@pytest.fixture
def book(store: Store) -> ContractBook:
    return ContractBook(store, ContractsSettings(sets_max=3), OwnedLimits())


async def test_a_version_grows_with_the_meaning_only(store: Store) -> None:
    first = await apply_texts(store, contract("a", "output = { tokens_max = 50 }"), contract("b"))
    assert ([(row.name, row.version) for row in first.contracts], first.changed) == (
        [("a", 1), ("b", 1)],
        ["a", "b"],
    )
    spelled = "# why\n" + contract("a", "\noutput.tokens_max = 50")
    same = await apply_texts(store, spelled, contract("b"))
    assert ([(row.name, row.version) for row in same.contracts], same.changed) == (
        [("a", 1), ("b", 1)],
        [],
    )
    changed = await apply_texts(store, contract("a", "output = { tokens_max = 40 }"))
    assert ([(row.name, row.version) for row in changed.contracts], changed.changed) == (
        [("a", 2)],
        ["a"],
    )
    back = await apply_texts(store, contract("b"), contract("a", "output = { tokens_max = 50 }"))
    assert [(row.name, row.version) for row in back.contracts] == [("a", 3), ("b", 1)]


async def test_a_set_is_shown_as_it_was_written(store: Store, book: ContractBook) -> None:
    text = "# a comment\n" + contract("a")
    applied = await apply_texts(store, text, message="first")
    number, rows = await book.in_force()
    assert (number, rows[0].document) == (applied.number, text)
    assert (await book.version("a", 1)).document == text
    in_force, sets = await book.sets()
    assert in_force == applied.number
    assert [(each.number, each.message, each.contracts) for each in sets] == [
        (applied.number, "first", 1)
    ]
    with pytest.raises(NotFound):
        await book.version("a", 2)
    with pytest.raises(NotFound):
        await book.rows_of(applied.number + 1)


async def test_none_may_be_in_force(store: Store, book: ContractBook) -> None:
    assert await book.in_force() == (0, [])
    applied = await apply_texts(store, contract("a"))
    assert (await book.withdraw(base=applied.number)).number == 0
    assert await book.in_force() == (0, [])
    in_force, sets = await book.sets()
    assert (in_force, len(sets)) == (0, 1)


async def test_of_two_who_apply_at_once_one_is_told(store: Store, book: ContractBook) -> None:
    base = (await apply_texts(store, contract("a"))).number

    async def apply(name: str) -> int:
        texts = {name: contract(name)}
        return (await book.apply(texts, actor=name, message="", base=base)).number

    done = await asyncio.gather(apply("b"), apply("c"), return_exceptions=True)
    refused = [each for each in done if isinstance(each, Conflict)]
    assert len(refused) == 1
    assert "apply again" in str(refused[0])
    assert (await book.in_force())[0] in done


async def test_old_sets_go_but_never_the_one_in_force(store: Store, book: ContractBook) -> None:
    numbers = []
    for tokens in range(1, 7):
        texts = {"a": contract("a", f"output = {{ tokens_max = {tokens} }}")}
        numbers.append((await book.apply(texts, actor="", message="")).number)
    _, sets = await book.sets()
    assert [each.number for each in sets] == numbers[:-4:-1]
    number, rows = await book.in_force()
    assert (number, rows[0].version) == (numbers[-1], 6)


def test_more_or_longer_contracts_than_the_settings_allow_are_refused(store: Store) -> None:
    few = ContractBook(
        store, ContractsSettings(contracts_max=1, document_bytes_max=1024), OwnedLimits()
    )
    few.check_sizes([contract("a")])
    with pytest.raises(InvalidRequest, match="contracts_max"):
        few.check_sizes([contract("a"), contract("b")])
    with pytest.raises(InvalidRequest, match="document_bytes_max"):
        few.check_sizes([f"# {'é' * 600}\n{contract('a')}"])
