"""What one request holds of its limits while it runs, and how it is settled.

A hold is settled exactly once, with what was truly used. Settling is synchronous and asks nobody.
"""

from penstock.admission.pot import Pot, used_of
from penstock.records.limit import Standing

Claims = tuple[tuple[Pot, int], ...]


class Hold:
    """What a request has reserved: made after the claims were, for hard and soft limits alike."""

    __slots__ = ("_claims", "_is_settled", "limits")

    def __init__(self, claims: Claims = ()) -> None:
        # Goes into the journal: the drain books the use on these limits.
        self.limits = tuple(pot.limit.id for pot, _ in claims)
        self._claims = claims
        self._is_settled = False

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What is left of each hard limit that counts this request, where Postgres was asked.

        A request that needs nothing of a limit, such as a free one of a budget, asks nobody.
        """
        return tuple(pot.standing() for pot, _ in self._claims if pot.limit.is_hard and pot.is_read)

    @property
    def warnings(self) -> tuple[Standing, ...]:
        """The soft limits that are passed."""
        return tuple(
            pot.standing() for pot, _ in self._claims if pot.is_over and not pot.limit.is_hard
        )

    def settle(self, *, requests: int, tokens: int, nanousd: int) -> None:
        """Free what was reserved and book what was used; zeros when nothing ran."""
        for pot, amount in self._take():
            used = used_of(pot.limit.measure, requests=requests, tokens=tokens, nanousd=nanousd)
            pot.settle(amount, used)

    def spend(self) -> None:
        """Book all of it: nobody knows what was used, and hanging up must not make an answer free.

        The ledger has no such use, so it lasts as long as this worker's lease does.
        """
        for pot, amount in self._take():
            pot.settle(amount, amount)

    def _take(self) -> Claims:
        claims = self._claims
        if claims:
            assert not self._is_settled, "a hold is settled once"
            self._is_settled = True
        return claims


# For accounts without limits, which are most: one for all, and settling it changes nothing.
NO_HOLD = Hold()
