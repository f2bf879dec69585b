"""A worker's part of one limit for one value in one window. Pure.

What is granted to a worker stays granted when it is used: in Postgres the larger of granted and
spent counts, so that use which is not booked yet is never free for others.
"""

from typing import Final, NamedTuple

from penstock.admission.windows import Window
from penstock.records.limit import Limit, Measure, Standing

BalanceKey = tuple[int, str, int]

# A busy balance keeps what it uses in this many watch intervals: if it returned all, it would have
# to ask again at once, and all requests would wait meanwhile.
_KEPT_WATCHES: Final = 8
# But only while this many times that amount is free for others: the same 2 % as a grant's.
_PLENTY: Final = 50


class Reading(NamedTuple):
    """Postgres' figures for one balance. All amounts are of its window."""

    amount: int
    # What had been used in this window before the limit was set.
    base: int
    # Over all workers, the larger of what is granted and what is spent.
    charged: int
    spent: int
    own_granted: int
    own_spent: int
    # What jobs hold unused: it becomes free when the jobs have ended, not soon.
    jobs_held: int = 0
    # Whether the limit still exists and is still hard.
    is_binding: bool = True

    @property
    def free(self) -> int:
        return self.amount - self.base - self.charged

    def may_come_back(self, used: int) -> int:
        """Return what is left once requests release all that they hold, which is soon."""
        return self.unspent(used) - self.jobs_held

    def unspent(self, used: int) -> int:
        """Return what is left if all holds are released. Our own use may not be booked yet."""
        return self.amount - self.base - self.spent - max(0, used - self.own_spent)


class WindowBalance:
    """What was granted to this worker, what of it is reserved, and what was used."""

    def __init__(self, limit: Limit, value: str, window: Window) -> None:
        self.limit = limit
        self.value = value
        self.window = window
        self.key: BalanceKey = (limit.id, value, window.start)
        # The window's bounds, as times are compared with them.
        self.starts_at = float(window.start)
        self.ends_at = float(window.end)
        # Whether another balance may have replaced it: code that cached this one must look again.
        self.is_forgotten = False
        self.granted = 0
        self.used = 0
        self.reserved = 0
        # The number of requests that wait for a lease on it and refer to this object.
        self.waiting = 0
        # Our lease in Postgres, which differs from `granted` until that is written.
        self.recorded = 0
        # Whether Postgres was read: a part may have been used before this object was made.
        self.is_read = False
        # What was free in Postgres when it was last read.
        self.elsewhere = 0
        # The least room since the watch began: no request needed it meanwhile.
        self.lowest_room = 0
        self.watched_since = 0.0
        # What had been used when the watch began.
        self.used_before = 0
        # Whether the limit was changed: the unused part is then returned at once.
        self.is_changed = False
        # For soft limits: whether more was spent than the limit, and what we had used when that was
        # last looked up.
        self.is_over = False
        self.surveyed = 0

    def is_of(self, asked_at: float) -> bool:
        """Return whether a request of this time counts in its window."""
        return self.starts_at <= asked_at < self.ends_at

    @property
    def room(self) -> int:
        """What may be reserved without asking Postgres. Below 0 when use exceeds the grant."""
        return self.granted - self.used - self.reserved

    @property
    def is_known(self) -> bool:
        """Whether the limit is hard and Postgres was read."""
        return self.limit.is_hard and self.is_read

    @property
    def is_passed(self) -> bool:
        """Whether the limit is soft and was exceeded."""
        return self.is_over and not self.limit.is_hard

    @property
    def is_square(self) -> bool:
        """Whether nothing runs, and the lease in Postgres is exactly what was used."""
        return not self.is_busy and self.granted == self.used == self.recorded

    @property
    def is_busy(self) -> bool:
        """Whether a request has reserved a part of it, or waits to."""
        return bool(self.reserved or self.waiting)

    @property
    def is_empty(self) -> bool:
        """Whether a new balance would be the same."""
        return not (self.is_busy or self.granted or self.recorded or self.used)

    def reserve(self, amount: int) -> None:
        self.reserved += amount
        self.lowest_room = min(self.lowest_room, self.room)

    def release(self, amount: int) -> None:
        """Undo a reservation that was not used."""
        self.reserved -= amount

    def settle(self, amount: int, used: int) -> None:
        self.reserved -= amount
        self.used += used

    def take_in(self, reading: Reading) -> None:
        """Take over our lease as read from Postgres: a lost answer may have made it larger."""
        if not self.is_read:
            self.is_read = True
            self.used += reading.own_granted
        # More may be booked than we know of, if this object was made anew meanwhile. What is booked
        # of requests that still run is reserved.
        self.used = max(self.used, reading.own_spent - self.reserved)
        self.granted = self.recorded = max(reading.own_granted, reading.own_spent)

    def take_grant(self, granted: int, now: float) -> None:
        """Record a grant that Postgres has committed."""
        self.granted = self.recorded = granted
        self.watch(now)

    def watch(self, now: float) -> None:
        self.lowest_room = self.room
        self.used_before = self.used
        self.watched_since = now

    def lose(self) -> None:
        """Drop a lease that was taken away: Postgres must be asked before the next reservation."""
        self.granted = self.recorded = 0
        self.is_read = False

    def unneeded(self) -> int:
        """Return the part of the grant not needed since the watch began; below 0, what is missing.

        While plenty is free elsewhere, it keeps what the current pace will need soon.
        """
        if self.is_changed:
            return self.room
        spare = max(self.lowest_room, 0)
        kept = _KEPT_WATCHES * (self.used - self.used_before)
        if kept > 0 and kept * _PLENTY <= self.elsewhere:
            spare = max(0, spare - kept)
        return min(self.room, spare)

    def standing(self) -> Standing:
        left = max(0, self.elsewhere + (self.room if self.limit.is_hard else 0))
        return Standing(self.limit, left, self.ends_at)


def used_of(measure: Measure, *, requests: int, tokens: int, nanousd: int) -> int:
    """Return the figure that a measure counts."""
    if measure is Measure.REQUESTS:
        return requests
    return tokens if measure is Measure.TOKENS else nanousd
