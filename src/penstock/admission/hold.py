"""What one request holds of its limits while it runs, and how it is settled.

A hold is settled exactly once, with what was really used. Settling is synchronous and local.
"""

from penstock.admission.window_balance import WindowBalance, used_of
from penstock.records.limit import Standing


class HeldAmount:
    """The amount of one balance that a request may need."""

    def __init__(self, balance: WindowBalance, amount: int) -> None:
        self.balance = balance
        self.amount = amount

    @property
    def is_within_lease(self) -> bool:
        """Whether it can be reserved without asking Postgres; on a soft limit it always can."""
        balance = self.balance
        return not self.amount or not balance.limit.is_hard or balance.room >= self.amount


HeldAmounts = tuple[HeldAmount, ...]


class Hold:
    """What a request has reserved, of hard and soft limits; made after the reservation."""

    def __init__(self, amounts: HeldAmounts = ()) -> None:
        # The journal records these ids: the drain books the use on these limits.
        self.limits = tuple(held.balance.limit.id for held in amounts)
        self._amounts = amounts
        self._is_settled = False

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What is left of each hard limit that counts this request, where Postgres was asked.

        It is not asked where the request needs nothing, such as of a budget if the model is free.
        """
        return tuple(held.balance.standing() for held in self._amounts if held.balance.is_known)

    @property
    def warnings(self) -> tuple[Standing, ...]:
        """The standings of the soft limits that are exceeded."""
        return tuple(held.balance.standing() for held in self._amounts if held.balance.is_passed)

    def settle(self, *, requests: int, tokens: int, nanousd: int) -> None:
        """Release the reservation and count what was used; zeros when nothing ran."""
        if not self._amounts:
            return
        assert not self._is_settled, "a hold is settled once"
        self._is_settled = True
        for held in self._amounts:
            measure = held.balance.limit.measure
            used = used_of(measure, requests=requests, tokens=tokens, nanousd=nanousd)
            held.balance.settle(held.amount, used)

    def drop(self) -> None:
        """Release what a request that does not run has reserved; nothing once it is settled."""
        if not self._is_settled:
            self.settle(requests=0, tokens=0, nanousd=0)


# Shared by all accounts without limits, which are most; settling it changes nothing.
NO_HOLD = Hold()
