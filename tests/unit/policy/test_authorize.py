"""The decision that gives a request its grant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock.policy import authorize
from penstock.records.account import Account, AccountId, Affinity, Key, KeyId, OnOutage, Role
from penstock.records.model import Family, Model, ModelId, Recipe

OURS = AccountId("0" * 32)
THEIRS = AccountId("f" * 32)


def _key(*, role: Role = Role.RUNTIME, is_blocked: bool = False, is_revoked: bool = False) -> Key:
    account = Account(OURS, "ours", is_blocked) if role is Role.RUNTIME else None
    return Key(KeyId("k"), role, account, is_revoked=is_revoked)


def _model(*allowed: str) -> Model:
    return Model(
        id=ModelId("@cf/maker/model"),
        family=Family.OPENAI,
        context_tokens=1024,
        recipe=Recipe(command=("engine",)),
        allowed_accounts=allowed,
    )


@pytest.mark.parametrize("path", [None, OURS])
@pytest.mark.parametrize("allowed", [(), (OURS,), (THEIRS, OURS)])
def test_a_runtime_key_gets_a_grant_for_its_own_account(
    path: str | None, allowed: tuple[str, ...]
) -> None:
    grant = authorize(_key(), _model(*allowed), "salt", path)
    assert (grant.account, grant.key, grant.cache_salt) == (OURS, KeyId("k"), "salt")
    assert (grant.on_outage_refuse, grant.is_affinity_strict) == (False, False)


@pytest.mark.parametrize("affinity", Affinity)
@pytest.mark.parametrize("on_outage", OnOutage)
def test_a_grant_says_what_its_account_has_chosen(affinity: Affinity, on_outage: OnOutage) -> None:
    account = Account(OURS, "ours", on_outage=on_outage, affinity=affinity)
    grant = authorize(Key(KeyId("k"), Role.RUNTIME, account), _model(), "salt", None)
    assert grant.is_affinity_strict is (affinity is Affinity.STRICT)
    assert grant.on_outage_refuse is (on_outage is OnOutage.REFUSE)


def test_an_operator_key_may_not_infer_and_is_told_what_to_use() -> None:
    with pytest.raises(errors.Forbidden, match="runtime key"):
        authorize(_key(role=Role.OPERATOR), _model(), "salt", None)


def test_a_key_without_an_account_may_not_infer() -> None:
    with pytest.raises(errors.Forbidden):
        authorize(Key(KeyId("k"), Role.RUNTIME, None), _model(), "salt", None)


def test_another_account_in_the_path_is_forbidden() -> None:
    with pytest.raises(errors.Forbidden, match="path"):
        authorize(_key(), _model(), "salt", THEIRS)


def test_an_empty_account_in_the_path_is_forbidden() -> None:
    with pytest.raises(errors.Forbidden, match="path"):
        authorize(_key(), _model(), "salt", "")


def test_a_blocked_account_is_told_that_it_is_blocked() -> None:
    with pytest.raises(errors.AccountBlocked):
        authorize(_key(is_blocked=True), _model(), "salt", None)


def test_a_model_of_other_accounts_is_not_allowed_and_is_named() -> None:
    with pytest.raises(errors.ModelNotAllowed, match="@cf/maker/model"):
        authorize(_key(), _model(THEIRS), "salt", None)


def test_a_revoked_key_is_not_a_key() -> None:
    with pytest.raises(errors.Unauthenticated):
        authorize(_key(is_revoked=True), _model(), "salt", None)


@given(
    role=st.sampled_from(Role),
    is_blocked=st.booleans(),
    is_revoked=st.booleans(),
    path=st.sampled_from([None, OURS, THEIRS, ""]),
    allowed=st.lists(st.sampled_from([OURS, THEIRS]), max_size=2),
)
def test_a_grant_is_given_exactly_when_nothing_speaks_against_it(
    *,
    role: Role,
    is_blocked: bool,
    is_revoked: bool,
    path: str | None,
    allowed: list[AccountId],
) -> None:
    key = _key(role=role, is_blocked=is_blocked, is_revoked=is_revoked)
    may = (
        role is Role.RUNTIME
        and not is_blocked
        and not is_revoked
        and path in (None, OURS)
        and (not allowed or OURS in allowed)
    )
    try:
        grant = authorize(key, _model(*allowed), "salt", path)
    except errors.Refused:
        assert not may
    else:
        assert may
        assert grant.account == OURS
