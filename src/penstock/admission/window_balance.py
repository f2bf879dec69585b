"""One limit's amount for one value in one window, as far as this worker holds a part of it. Pure.

What is granted to a worker stays granted when it is used: in Postgres the larger of granted and
spent counts, so that use which is not booked yet is never free for others.
"""

from typing import Final, NamedTuple

from penstock.admission.windows import Window
from penstock.records.limit import Limit, Measure, Standing

PotKey = tuple[int, str, int]

# A busy pot keeps what it uses in so many times of its watch: given back to the last, it would have
# to be asked for again at once, and all requests of that moment would wait.
_KEPT_WATCHES: Final = 8
# But only as long as so many times that much is free for others: the same 2 % as a slice is.
_PLENTY: Final = 50


class Reading(NamedTuple):
    """What Postgres says of a pot. All amounts are of its window."""

    amount: int
    # What had been used in this window before the limit was set.
    base: int
    # Over all workers, the larger of what is granted and what is spent.
    charged: int
    spent: int
    own_granted: int
    own_spent: int
    # What jobs hold without having used it: it comes back when they have ended, not soon.
    jobs_held: int = 0
    # Whether it is still there and still a hard one.
    is_binding: bool = True

    @property
    def free(self) -> int:
        return self.amount - self.base - self.charged

    def may_come_back(self, used: int) -> int:
        """What is left if all that requests hold comes back, which they do soon."""
        return self.unspent(used) - self.jobs_held

    def unspent(self, used: int) -> int:
        """What is left if all that is held comes back. Our own use may not be booked yet."""
        return self.amount - self.base - self.spent - max(0, used - self.own_spent)


class WindowBalance:
    """What was granted to this worker, what of it is reserved, and what was used."""

    def __init__(self, limit: Limit, value: str, window: Window) -> None:
        self.limit = limit
        self.value = value
        self.window = window
        self.key: PotKey = (limit.id, value, window.start)
        # The window's bounds, as times are compared with them.
        self.starts_at = float(window.start)
        self.ends_at = float(window.end)
        # Whether another pot may have taken its place: whoever kept this one must look again.
        self.is_forgotten = False
        self.granted = 0
        self.used = 0
        self.reserved = 0
        # Requests that wait for a lease on it: they hold this very pot.
        self.waiting = 0
        # What Postgres charges us with: another figure than `granted` until it is written.
        self.recorded = 0
        # Whether Postgres was asked: a part may have been used before this pot was made here.
        self.is_read = False
        # What was free in Postgres when it was last asked.
        self.elsewhere = 0
        # The least room there was since the watch began: what nobody needed meanwhile.
        self.lowest_room = 0
        self.watched_since = 0.0
        # What had been used when it began.
        self.used_before = 0
        # The limit was changed: what is not used goes back at once, to be asked for anew.
        self.is_changed = False
        # For limits that only warn: more was spent than they say; and what we had used when that
        # was last looked up.
        self.is_over = False
        self.surveyed = 0

    def is_of(self, asked_at: float) -> bool:
        """Whether a request of this time counts in its window."""
        return self.starts_at <= asked_at < self.ends_at

    @property
    def room(self) -> int:
        """What may be reserved without asking. Below 0 when more is used than was granted."""
        return self.granted - self.used - self.reserved

    @property
    def is_known(self) -> bool:
        """A hard one of which Postgres has told what is left."""
        return self.limit.is_hard and self.is_read

    @property
    def is_passed(self) -> bool:
        """A soft one of which more was used than it says."""
        return self.is_over and not self.limit.is_hard

    @property
    def is_square(self) -> bool:
        """Nothing runs, and Postgres has exactly what was used."""
        return not self.is_busy and self.granted == self.used == self.recorded

    @property
    def is_busy(self) -> bool:
        """Somebody has a part of it, or is about to."""
        return bool(self.reserved or self.waiting)

    @property
    def is_empty(self) -> bool:
        """A new one would be just the same."""
        return not (self.is_busy or self.granted or self.recorded or self.used)

    def reserve(self, amount: int) -> None:
        self.reserved += amount
        self.lowest_room = min(self.lowest_room, self.room)

    def release(self, amount: int) -> None:
        """Undo a reservation that came to nothing."""
        self.reserved -= amount

    def settle(self, amount: int, used: int) -> None:
        self.reserved -= amount
        self.used += used

    def take_in(self, reading: Reading) -> None:
        """Learn what Postgres has of us. It may have more than we knew: an answer may get lost."""
        if not self.is_read:
            self.is_read = True
            self.used += reading.own_granted
        # More may be booked than we know of, if this pot was made anew meanwhile. What is booked of
        # requests that still run is reserved.
        self.used = max(self.used, reading.own_spent - self.reserved)
        self.granted = self.recorded = max(reading.own_granted, reading.own_spent)

    def take_grant(self, granted: int, now: float) -> None:
        """Postgres has committed this grant."""
        self.granted = self.recorded = granted
        self.watch(now)

    def watch(self, now: float) -> None:
        self.lowest_room = self.room
        self.used_before = self.used
        self.watched_since = now

    def lose(self) -> None:
        """Somebody else took our lease away: ask anew before anything more is reserved."""
        self.granted = self.recorded = 0
        self.is_read = False

    def unneeded(self) -> int:
        """What of the grant nobody needed since the watch began; below 0, what lacks.

        While plenty is free elsewhere, what will be needed soon at the present pace is kept.
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
    """The figure that a measure counts."""
    if measure is Measure.REQUESTS:
        return requests
    return tokens if measure is Measure.TOKENS else nanousd
