"""One limit that counts for one value, with the balance that was last used for it."""

from penstock.admission.window_balance import WindowBalance
from penstock.records.limit import Limit


class CountedLimit:
    """An entry of `LimitTable`; `WindowBalances.find` caches in `balance` the balance it found."""

    def __init__(self, limit: Limit, value: str, balance: WindowBalance | None = None) -> None:
        self.limit = limit
        self.value = value
        self.balance = balance
