"""An account's share in the fair order: chosen by command, kept in Postgres, heard by mirrors."""

import pytest
from tests.integration.cells.commands import Penstock, read

from penstock import errors
from penstock.clock import SystemClock
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings, authorize
from penstock.records.account import KeyId, Role
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.store import Store

MODEL = Model(ModelId("@cf/x/y"), Family.OPENAI, 1000, Recipe(("x",)))


async def test_mirrors_learn_the_weight(store: Store) -> None:
    accounts = AccountBook(store)
    account = await accounts.create("Team A")
    assert account.flex_weight == 1
    key, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "k")
    changed = await accounts.set_flex_weight(account.id, 3)
    mirror = KeyMirror(store, SystemClock(), PolicySettings())
    assert mirror.find_by_id(key.id) is None, "not known before it has loaded"
    await mirror.load()
    found = mirror.find_by_id(key.id)
    assert found == mirror.find(secret.encode())
    assert found is not None
    assert found.account == changed == await accounts.find(account.id)
    assert [each.flex_weight for each in await accounts.list()] == [3]
    assert mirror.find_by_id(KeyId("nobody")) is None


@pytest.mark.parametrize("weight", [0, -1, 1001])
async def test_weight_out_of_bounds_is_refused(store: Store, weight: int) -> None:
    account = await AccountBook(store).create("Team A")
    with pytest.raises(errors.InvalidRequest):
        await AccountBook(store).set_flex_weight(account.id, weight)
    with pytest.raises(errors.NotFound):
        await AccountBook(store).set_flex_weight("0" * 32, 2)


async def test_jobs_learn_by_their_key_that_it_was_revoked_or_its_account_blocked(
    store: Store,
) -> None:
    account = await AccountBook(store).create("Team A")
    gone, _ = await KeyBook(store).create(Role.RUNTIME, account.id, "gone")
    kept, _ = await KeyBook(store).create(Role.RUNTIME, account.id, "kept")
    await KeyBook(store).revoke(gone.id)
    await AccountBook(store).set_blocked(account.id, is_blocked=True)
    mirror = KeyMirror(store, SystemClock(), PolicySettings())
    await mirror.load()
    for id, refusal in ((gone.id, errors.Unauthenticated), (kept.id, errors.AccountBlocked)):
        key = mirror.find_by_id(id)
        assert key is not None
        with pytest.raises(refusal):
            authorize(key, MODEL, "", None)


def test_weight_is_chosen_by_command(penstock: Penstock) -> None:
    account = read(penstock("account", "create", "Team A", "--json"))
    assert account["flex_weight"] == 1
    id = account["id"]
    heavy = read(penstock("account", "set", id, "--flex-weight", "5", "--json"))
    assert heavy == account | {"flex_weight": 5}
    assert "flex weight" in penstock("account", "list").stdout
    all_three = ("--flex-weight", "2", "--affinity", "strict", "--on-outage", "refuse", "--json")
    expected = {"flex_weight": 2, "affinity": "strict", "on_outage": "refuse"}
    assert read(penstock("account", "set", id, *all_three)) == account | expected
    assert penstock("account", "set", id, "--flex-weight", "0").exit_code == 2
    assert penstock("account", "set", "0" * 32, "--flex-weight", "2").exit_code == 4
