"""Decides whether a key may use a model on a path. A pure function over records; no lookups."""

from penstock import errors
from penstock.records.account import Affinity, Key, OnOutage, Role
from penstock.records.grant import Grant
from penstock.records.model import Model


def authorize(key: Key, model: Model, salt: str, account_in_path: str | None) -> Grant:
    """Return the grant (account, key and salt), or raise the reason for the refusal.

    `account_in_path` is None on /v1, whose paths name no account.
    """
    if key.is_revoked:
        raise errors.Unauthenticated
    account = key.account
    if key.role is Role.OPERATOR or account is None:
        raise errors.Forbidden("An operator key may not infer: use a runtime key of an account.")
    if account_in_path is not None and account_in_path != account.id:
        raise errors.Forbidden("The account in the path is not this key's account.")
    if account.is_blocked:
        raise errors.AccountBlocked
    if model.allowed_accounts and account.id not in model.allowed_accounts:
        raise errors.ModelNotAllowed(f"This account may not use the model {model.id}.")
    return Grant(
        account.id,
        key.id,
        salt,
        on_outage_refuse=account.on_outage is OnOutage.REFUSE,
        is_affinity_strict=account.affinity is Affinity.STRICT,
        workflow=key.workflow,
    )
