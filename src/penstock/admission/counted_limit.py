"""One limit as it counts for one value, and the pot that was last used for it."""

from penstock.admission.window_balance import WindowBalance
from penstock.records.limit import Limit


class CountedLimit:
    """Of one table, for one worker's pots: `Pots.find` keeps here what it found."""

    def __init__(self, limit: Limit, value: str, pot: WindowBalance | None = None) -> None:
        self.limit = limit
        self.value = value
        self.pot = pot
