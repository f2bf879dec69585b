"""Accounts and keys in memory, told of changes in any order that Postgres may give them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.policy.key_row import KeyRow
from penstock.policy.key_table import KeyTable
from penstock.records.account import Account, AccountId, Key, KeyId, Role


def _table(keys_max: int = 100, accounts_max: int = 100) -> KeyTable:
    return KeyTable(keys_max=keys_max, accounts_max=accounts_max)


def _account(number: int, *, is_blocked: bool = False) -> Account:
    return Account(AccountId(f"a{number}"), f"account {number}", is_blocked)


def _row(number: int, account: int | None = 1, *, is_revoked: bool = False) -> KeyRow:
    return KeyRow(
        id=KeyId(f"k{number}"),
        account_id=None if account is None else AccountId(f"a{account}"),
        role=Role.OPERATOR if account is None else Role.RUNTIME,
        name=f"key {number}",
        secret_sha256=_hash(number),
        is_revoked=is_revoked,
    )


def _hash(number: int) -> bytes:
    return bytes([number]) * 32


def test_a_key_is_known_with_its_account() -> None:
    table = _table()
    table.apply_accounts([_account(1)])
    table.apply_keys([_row(1), _row(2, None)])
    assert table.active == {
        _hash(1): Key(KeyId("k1"), Role.RUNTIME, _account(1), "key 1"),
        _hash(2): Key(KeyId("k2"), Role.OPERATOR, None, "key 2"),
    }


def test_a_key_is_found_by_its_id_as_it_is_now() -> None:
    table = _table()
    table.apply_accounts([_account(1)])
    table.apply_keys([_row(1), _row(2, None), _row(3, is_revoked=True)])
    assert table.find_by_id(KeyId("k1")) == table.active[_hash(1)]
    assert table.find_by_id(KeyId("k2")) == table.active[_hash(2)]
    table.apply_accounts([_account(1, is_blocked=True)])
    found = table.find_by_id(KeyId("k1"))
    assert found is not None
    assert found.account == _account(1, is_blocked=True)
    table.apply_keys([_row(1, is_revoked=True)])
    for number in (1, 3):
        found = table.find_by_id(KeyId(f"k{number}"))
        assert found is not None
        assert found.is_revoked
    assert table.find_by_id(KeyId("k4")) is None


def test_a_blocked_account_is_seen_through_all_its_keys() -> None:
    table = _table()
    table.apply_accounts([_account(1), _account(2)])
    table.apply_keys([_row(1), _row(2), _row(3, 2)])
    table.apply_accounts([_account(1, is_blocked=True)])
    blocked = {key.id for key in table.active.values() if key.account and key.account.is_blocked}
    assert blocked == {"k1", "k2"}


def test_a_revoked_key_is_gone_and_remembered_as_revoked() -> None:
    table = _table()
    table.apply_accounts([_account(1)])
    table.apply_keys([_row(1), _row(2, None)])
    assert not table.is_revoked(_hash(1))
    table.apply_keys([_row(1, is_revoked=True), _row(2, None, is_revoked=True)])
    table.apply_accounts([_account(1, is_blocked=True)])
    assert table.active == {}
    assert table.is_revoked(_hash(1))
    assert table.is_revoked(_hash(2))


def test_a_key_that_was_revoked_before_it_was_heard_of_is_never_active() -> None:
    table = _table()
    table.apply_keys([_row(1, is_revoked=True)])
    assert table.active == {}
    assert table.is_revoked(_hash(1))


def test_a_key_of_an_account_not_heard_of_waits_for_it() -> None:
    table = _table()
    table.apply_keys([_row(1)])
    assert table.active == {}
    table.apply_accounts([_account(1)])
    table.apply_keys([_row(1)])
    assert _hash(1) in table.active
    assert not table.is_full


def test_keys_over_the_limit_are_left_out_and_known_ones_still_change() -> None:
    table = _table(keys_max=2)
    table.apply_accounts([_account(1)])
    table.apply_keys([_row(1), _row(2)])
    was_full = table.is_full
    table.apply_keys([_row(3), _row(1, is_revoked=True), _row(4, is_revoked=True)])
    assert (was_full, table.is_full) == (False, True)
    assert set(table.active) == {_hash(2)}
    assert table.is_revoked(_hash(1))


def test_accounts_over_the_limit_are_left_out_with_their_keys() -> None:
    table = _table(accounts_max=1)
    table.apply_accounts([_account(1), _account(2)])
    table.apply_keys([_row(1), _row(2, 2)])
    assert table.is_full
    assert set(table.active) == {_hash(1)}
    table.apply_accounts([_account(1, is_blocked=True)])
    key = table.active[_hash(1)]
    assert key.account is not None
    assert key.account.is_blocked


_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("account"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("key"), st.integers(1, 9), st.booleans()),
    ),
    max_size=60,
)


@given(changes=_CHANGES, twice=st.booleans())
def test_changes_told_one_by_one_or_again_end_in_the_same_table(
    *, changes: list[tuple[str, int, bool]], twice: bool
) -> None:
    """The truth is computed naively; telling a change twice must not matter."""
    accounts = {number: _account(number) for number in (1, 2, 3)}
    revoked: dict[int, bool] = {}
    table = _table()
    table.apply_accounts(accounts.values())
    for kind, number, flag in changes:
        for _ in range(2 if twice else 1):
            if kind == "account":
                accounts[number] = _account(number, is_blocked=flag)
                table.apply_accounts([accounts[number]])
            else:
                revoked[number] = revoked.get(number, False) or flag
                table.apply_keys([_row(number, number % 3 + 1, is_revoked=revoked[number])])
    assert table.active == {
        _hash(number): Key(
            KeyId(f"k{number}"), Role.RUNTIME, accounts[number % 3 + 1], f"key {number}"
        )
        for number, is_revoked in revoked.items()
        if not is_revoked
    }
    for number, is_revoked in revoked.items():
        assert table.is_revoked(_hash(number)) == is_revoked


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_table_never_holds_more_than_its_limit(limit: int) -> None:
    table = _table(keys_max=limit)
    table.apply_keys([_row(number, None, is_revoked=number % 2 == 0) for number in range(10)])
    held = len(table.active) + sum(table.is_revoked(_hash(number)) for number in range(10))
    assert held == limit
