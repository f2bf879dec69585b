"""A grant is kept for a key and a model, and no longer than both stay what they are."""

import pytest

from penstock.errors import AccountBlocked, Forbidden, ModelNotAllowed, Unauthenticated
from penstock.intake.grant_cache import KEYS_MAX, GrantCache
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Account, AccountId, Affinity, Key, KeyId, Role
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

ACME = AccountId("acme")
MODEL = Model(ModelId("@cf/x/y"), Family.OPENAI, 1000, Recipe(("x",)))
OTHERS = Model(ModelId("@cf/x/z"), Family.OPENAI, 1000, Recipe(("x",)), allowed_accounts=("b",))


def key_of(account: Account | None, *, is_revoked: bool = False) -> Key:
    return Key(KeyId("k"), Role.RUNTIME, account, is_revoked=is_revoked)


KEY = key_of(Account(ACME, "Acme"))


@pytest.fixture
def grants() -> GrantCache:
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    grants = GrantCache(mirror)
    grants.find(KEY, MODEL, None)
    return grants


def test_same_key_and_model_have_the_same_grant(grants: GrantCache) -> None:
    assert grants.find(KEY, MODEL, None) is grants.find(KEY, MODEL, None)


def test_account_that_was_blocked_meanwhile_is_refused(grants: GrantCache) -> None:
    with pytest.raises(AccountBlocked):
        grants.find(key_of(Account(ACME, "Acme", is_blocked=True)), MODEL, None)


def test_key_that_was_revoked_meanwhile_is_refused(grants: GrantCache) -> None:
    for account in (None, KEY.account):
        with pytest.raises(Unauthenticated):
            grants.find(key_of(account, is_revoked=True), MODEL, None)


def test_change_of_an_account_is_seen(grants: GrantCache) -> None:
    changed = key_of(Account(ACME, "Acme", affinity=Affinity.STRICT))
    assert grants.find(changed, MODEL, None).grant.is_affinity_strict
    assert not grants.find(KEY, MODEL, None).grant.is_affinity_strict


def test_path_of_another_account_is_refused(grants: GrantCache) -> None:
    with pytest.raises(Forbidden):
        grants.find(KEY, MODEL, "another")
    assert grants.find(KEY, MODEL, ACME).grant.account == ACME


def test_model_of_others_is_refused_and_models_do_not_share_digests(grants: GrantCache) -> None:
    with pytest.raises(ModelNotAllowed):
        grants.find(KEY, OTHERS, None)
    third = Model(ModelId("@cf/x/w"), Family.OPENAI, 1000, Recipe(("x",)))
    assert grants.find(KEY, third, None).root != grants.find(KEY, MODEL, None).root


def test_grants_are_bounded(grants: GrantCache) -> None:
    for number in range(KEYS_MAX + 10):
        grants.find(Key(KeyId(str(number)), Role.RUNTIME, KEY.account), MODEL, None)
    assert len(grants._by_key) <= KEYS_MAX
