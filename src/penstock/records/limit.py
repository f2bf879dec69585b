"""A limit on usage: its scope, measure and period; and how much of it is left."""

from enum import StrEnum
from typing import Final

from penstock.records.account import AccountId

# The holder of all jobs' holds and spend: one for all keepers and gateways, because one process
# submits a job and another one finishes it. No worker ever has this id.
FLEX_HOLDER: Final = "f1e70000-0000-7000-8000-000000000000"

# The holder of what containers have cost. It has no leases: their time is charged when it is over.
CONTAINER_HOLDER: Final = "c0de0000-0000-7000-8000-000000000000"


class Scope(StrEnum):
    """The unit whose usage is counted together."""

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
    """The length of a window. Windows begin with the minute, day or month in UTC."""

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"


class Limit:
    """Allows at most `amount` in each window; a soft limit only warns. Immutable but for `header`.

    `value` names the key, workflow or session; "*" is each one by itself, "" the whole account.
    A limit with a `contract` belongs to that: it has no account, and holds for each by itself.
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
        contract: str = "",
    ) -> None:
        self.id = id
        self.account = account
        self.scope = scope
        self.value = value
        self.measure = measure
        self.period = period
        self.amount = amount
        self.is_hard = is_hard
        self.contract = contract
        # A cache for the response header's text, which the code that writes headers fills.
        self.header = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limit) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return self.id

    def _facts(self) -> tuple[object, ...]:
        on = (self.account, self.scope, self.value, self.measure, self.period)
        return self.id, *on, self.amount, self.is_hard, self.contract


class Standing:
    """What is left of a limit for one value, as far as this gateway knows, and when it resets."""

    def __init__(self, limit: Limit, left: int, resets_at: float) -> None:
        self.limit = limit
        self.left = left
        self.resets_at = resets_at
