"""Bounds long operations, such as uploads and waits, in total and per account.

Without the second bound one account could take all slots, and no other would be served.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from penstock.errors import OverLimit, Overloaded
from penstock.records.account import AccountId

_RETRY_SECONDS: Final = 5


class ConcurrencySlots:
    """One worker's slots of one kind. `what` names them in the error of a refused caller."""

    def __init__(self, what: str, places_max: int, per_account_max: int) -> None:
        self._what = what
        self._max = places_max
        self._per_account_max = per_account_max
        self._taken: Counter[AccountId] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    @contextlib.contextmanager
    def take(self, account: AccountId) -> Iterator[None]:
        """Hold one slot until the block ends."""
        if len(self) >= self._max:
            raise Overloaded(
                f"This gateway has as many {self._what} as it may.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        if self._taken[account] >= self._per_account_max:
            raise OverLimit(
                f"This account has {self._per_account_max} {self._what} here, which is as many as "
                "it may have at a time.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._taken[account] += 1
        try:
            yield
        finally:
            self._taken[account] -= 1
            if not self._taken[account]:
                del self._taken[account]
