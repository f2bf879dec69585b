"""Accounts and keys, as policy knows them and as the rest of the path sees them."""

from enum import StrEnum
from typing import NewType

import msgspec

AccountId = NewType("AccountId", str)
KeyId = NewType("KeyId", str)


class Role(StrEnum):
    """What a key may do: infer for its account, or administer and infer nothing."""

    RUNTIME = "runtime"
    OPERATOR = "operator"


class OnOutage(StrEnum):
    """What becomes of requests beyond an account's leases while Postgres is away."""

    CONTINUE = "continue"
    REFUSE = "refuse"


class Affinity(StrEnum):
    """How firmly a session stays with its replica: among near equals, or until that is gone."""

    NEAR = "near"
    STRICT = "strict"


class Account(msgspec.Struct, frozen=True):
    """A tenant."""

    id: AccountId
    name: str
    is_blocked: bool = False
    on_outage: OnOutage = OnOutage.CONTINUE
    affinity: Affinity = Affinity.NEAR
    # Its share in the fair order of jobs, beside those of the other accounts.
    flex_weight: int = 1


class Key(msgspec.Struct, frozen=True):
    """One key without its secret. An operator's belongs to the installation, to no account."""

    id: KeyId
    role: Role
    account: Account | None
    name: str = ""
    is_revoked: bool = False
