"""Accounts and keys in a real Postgres."""

import asyncio
import hashlib
import re

import pytest

from penstock import errors
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Account, Key, Role
from penstock.store import Store

NOBODY = "0" * 32


@pytest.fixture
def accounts(store: Store) -> AccountBook:
    return AccountBook(store)


@pytest.fixture
def keys(store: Store) -> KeyBook:
    return KeyBook(store)


async def test_an_account_gets_an_id_like_workers_ais(accounts: AccountBook) -> None:
    account = await accounts.create("Team A")
    assert re.fullmatch("[0-9a-f]{32}", account.id)
    assert account == Account(account.id, "Team A", is_blocked=False)
    assert await accounts.find(account.id) == account


async def test_an_account_may_bring_its_id_once(accounts: AccountBook) -> None:
    account = await accounts.create("Team A", id="a" * 32)
    assert account.id == "a" * 32
    with pytest.raises(errors.InvalidRequest, match="already"):
        await accounts.create("Team B", id="a" * 32)
    assert await accounts.list() == (account,)


@pytest.mark.parametrize("wrong", ["", "a" * 31, "A" * 32, "g" * 32, "a" * 32 + "\n"])
async def test_an_account_id_of_another_shape_is_refused(accounts: AccountBook, wrong: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        await accounts.create("Team A", id=wrong)
    assert caught.value.param == "id"


@pytest.mark.parametrize("wrong", ["", "x" * 201, "two\nlines", "\x1b[31m"])
async def test_a_name_that_would_spoil_a_screen_is_refused(
    accounts: AccountBook, keys: KeyBook, wrong: str
) -> None:
    with pytest.raises(errors.InvalidRequest):
        await accounts.create(wrong)
    with pytest.raises(errors.InvalidRequest):
        await keys.create(Role.OPERATOR, None, wrong)


async def test_accounts_are_listed_oldest_first_up_to_a_limit(accounts: AccountBook) -> None:
    made = [await accounts.create(f"Team {number}") for number in range(3)]
    assert await accounts.list() == tuple(made)
    assert await accounts.list(limit=2) == tuple(made[:2])


async def test_an_account_can_be_blocked_and_let_go_on(accounts: AccountBook) -> None:
    account = await accounts.create("Team A")
    assert (await accounts.set_blocked(account.id, True)).is_blocked
    assert await accounts.find(account.id) == Account(account.id, "Team A", is_blocked=True)
    assert not (await accounts.set_blocked(account.id, False)).is_blocked


async def test_an_account_that_is_not_there_is_not_found(accounts: AccountBook) -> None:
    assert await accounts.find(NOBODY) is None
    with pytest.raises(errors.NotFound, match=NOBODY):
        await accounts.set_blocked(NOBODY, True)


async def test_a_secret_is_shown_once_and_kept_as_a_hash(
    accounts: AccountBook, keys: KeyBook, store: Store
) -> None:
    account = await accounts.create("Team A")
    key, secret = await keys.create(Role.RUNTIME, account.id, "ci")
    assert re.fullmatch(r"psk_[A-Za-z0-9_-]{43}", secret)
    assert key == Key(key.id, Role.RUNTIME, account, "ci")
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select k::text, secret_sha256 from keys k")
    assert [row[1] for row in rows] == [hashlib.sha256(secret.encode()).digest()]
    assert secret not in rows[0][0]


async def test_secrets_differ(keys: KeyBook) -> None:
    made = [await keys.create(Role.OPERATOR, None, "op") for _ in range(20)]
    assert len({secret for _, secret in made}) == 20
    assert len({key.id for key, _ in made}) == 20


async def test_a_runtime_key_needs_an_account_and_an_operator_key_none(
    accounts: AccountBook, keys: KeyBook
) -> None:
    account = await accounts.create("Team A")
    with pytest.raises(errors.InvalidRequest, match="needs an account"):
        await keys.create(Role.RUNTIME, None, "ci")
    with pytest.raises(errors.InvalidRequest, match="installation"):
        await keys.create(Role.OPERATOR, account.id, "op")
    with pytest.raises(errors.NotFound, match=NOBODY):
        await keys.create(Role.RUNTIME, NOBODY, "ci")
    assert await keys.list() == ()


async def test_keys_are_listed_by_account_or_all(accounts: AccountBook, keys: KeyBook) -> None:
    one, two = await accounts.create("One"), await accounts.create("Two")
    first, _ = await keys.create(Role.RUNTIME, one.id, "first")
    second, _ = await keys.create(Role.RUNTIME, two.id, "second")
    operator, _ = await keys.create(Role.OPERATOR, None, "operator")
    assert await keys.list() == (first, second, operator)
    assert await keys.list(two.id) == (second,)
    assert await keys.list(limit=1) == (first,)


async def test_revoking_is_final_and_may_be_repeated(keys: KeyBook, store: Store) -> None:
    key, _ = await keys.create(Role.OPERATOR, None, "op")
    await keys.revoke(key.id)
    async with store.transaction() as transaction:
        first = await transaction.fetch("select revoked_at from keys")
    await keys.revoke(key.id)
    async with store.transaction() as transaction:
        assert await transaction.fetch("select revoked_at from keys") == first
    assert [each.is_revoked for each in await keys.list()] == [True]


async def test_revoking_a_key_that_is_not_there_is_not_found(keys: KeyBook) -> None:
    with pytest.raises(errors.NotFound, match="no-such-key"):
        await keys.revoke("no-such-key")


async def test_writers_at_once_neither_deadlock_nor_share_a_revision(
    accounts: AccountBook, keys: KeyBook, store: Store
) -> None:
    account = await accounts.create("Team A")
    async with asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(keys.create(Role.RUNTIME, account.id, f"key {number}"))
            tasks.create_task(accounts.create(f"Team {number}"))
            tasks.create_task(accounts.set_blocked(account.id, number % 2 == 0))
    async with store.transaction() as transaction:
        counter = await transaction.fetch_one("select revision from policy_revision")
        shared = await transaction.fetch(
            "select revision from (select revision from keys union all"
            " select revision from accounts) r group by revision having count(*) > 1"
        )
    assert counter == (121,)
    assert shared == []
