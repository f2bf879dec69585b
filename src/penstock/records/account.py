"""Accounts and keys, as policy and the rest of the request path use them."""

import re
from enum import StrEnum
from typing import Final, NewType

import msgspec

AccountId = NewType("AccountId", str)
KeyId = NewType("KeyId", str)
# The name of a workflow, as callers write it.
WORKFLOW: Final = re.compile(r"[A-Za-z0-9._:/-]{1,64}")


class Role(StrEnum):
    """What a key may do: run inference for its account, administer, or only read as operators do.

    Gateways do not know auditors' keys: these are for the operator's API alone.
    """

    RUNTIME = "runtime"
    OPERATOR = "operator"
    AUDITOR = "auditor"


class OnOutage(StrEnum):
    """Whether requests that exceed an account's leases are served while Postgres is unavailable."""

    CONTINUE = "continue"
    REFUSE = "refuse"


class Affinity(StrEnum):
    """How long a session stays on its replica: while it is nearly the best, or until it is gone."""

    NEAR = "near"
    STRICT = "strict"


class Storage(StrEnum):
    """Whether an account's responses may be stored: as its cell and each request say, or never."""

    CELL = "cell"
    NEVER = "never"


class Account(msgspec.Struct, frozen=True):
    """A tenant."""

    id: AccountId
    name: str
    is_blocked: bool = False
    on_outage: OnOutage = OnOutage.CONTINUE
    affinity: Affinity = Affinity.NEAR
    # The account's weight in the fair order of jobs, relative to other accounts.
    flex_weight: int = 1
    # Whether all its answers have their cost in `usage`, as if each request had asked for it.
    has_usage_cost: bool = False
    storage: Storage = Storage.CELL


class Key(msgspec.Struct, frozen=True):
    """A key without its secret. Only a runtime key belongs to an account."""

    id: KeyId
    role: Role
    account: Account | None
    name: str = ""
    is_revoked: bool = False
    # The only workflow that its requests may belong to; "" is any.
    workflow: str = ""
