"""A limit on what may be used: of what, by whom, in which time; and where somebody stands."""

from enum import StrEnum
from typing import Final

import msgspec

from penstock.records.account import AccountId

# Who holds, and has spent, what jobs use of limits: one holder for all keepers and gateways, for a
# job that was submitted through one process is finished by another. No worker is ever named so.
FLEX_HOLDER: Final = "f1e70000-0000-7000-8000-000000000000"


class Scope(StrEnum):
    """Whose use is counted together."""

    ACCOUNT = "account"
    KEY = "key"
    WORKFLOW = "workflow"
    SESSION = "session"


class Measure(StrEnum):
    """What is counted."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    NANOUSD = "nanousd"


class Period(StrEnum):
    """How long a window is. Windows begin on the minute, the day, the month, in UTC."""

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"


class Limit(msgspec.Struct, frozen=True):
    """At most `amount` in each window. A soft one only warns.

    `value` names the key, workflow or session; "*" is each one by itself, "" the whole account.
    """

    id: int
    account: AccountId
    scope: Scope
    value: str
    measure: Measure
    period: Period
    amount: int
    is_hard: bool = True


class Standing(msgspec.Struct, frozen=True):
    """What is left of a limit for one value, as far as this gateway knows, and until when."""

    limit: Limit
    value: str
    left: int
    resets_at: float
