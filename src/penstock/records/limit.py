"""A limit on what may be used: of what, by whom, in which time; and where somebody stands."""

from enum import StrEnum
from typing import Final

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


class Limit:
    """At most `amount` in each window. A soft one only warns. Nothing of it changes.

    `value` names the key, workflow or session; "*" is each one by itself, "" the whole account.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the fields of a record
        self,
        id: int,
        account: AccountId,
        scope: Scope,
        value: str,
        measure: Measure,
        period: Period,
        amount: int,
        is_hard: bool = True,
    ) -> None:
        self.id = id
        self.account = account
        self.scope = scope
        self.value = value
        self.measure = measure
        self.period = period
        self.amount = amount
        self.is_hard = is_hard
        # What every answer says of it: whoever writes that keeps it here, and may find it again.
        self.header = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limit) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return self.id

    def _facts(self) -> tuple[object, ...]:
        on = (self.account, self.scope, self.value, self.measure, self.period)
        return self.id, *on, self.amount, self.is_hard


class Standing:
    """What is left of a limit for one value, as far as this gateway knows, and until when."""

    def __init__(self, limit: Limit, left: int, resets_at: float) -> None:
        self.limit = limit
        self.left = left
        self.resets_at = resets_at
