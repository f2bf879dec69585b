"""What a whole run found: the figures of its last line, and whether every promise was kept."""

import msgspec
from tests.chaos.ledger_check import Verdict


class Findings(msgspec.Struct):
    """The first five are the agreed ones. Everything but `requests` and shares must be 0."""

    requests: int = 0
    missing: int = 0
    double: int = 0
    failed_while_postgres_down: int = 0
    budget_overrun: int = 0
    # A token, a charge or a cost that is not where it must be.
    wrong_counts: int = 0
    ejected_replicas: int = 0
    # Requests of an account that is to be refused, served beyond what was leased.
    served_beyond_leases: int = 0
    wrong_refusals: int = 0
    stuck_leases: int = 0
    # Of the budget's N requests, the least of all races.
    served_share: float | None = None
    seed: int = 0
    seconds: float = 0.0

    def take(self, verdict: Verdict) -> None:
        self.missing += verdict.missing
        self.double += verdict.double
        self.wrong_counts += verdict.wrong

    def take_share(self, share: float) -> None:
        share = round(share, 4)
        self.served_share = share if self.served_share is None else min(self.served_share, share)

    @property
    def is_good(self) -> bool:
        broken = (
            self.missing, self.double, self.failed_while_postgres_down, self.budget_overrun,
            self.wrong_counts, self.ejected_replicas, self.served_beyond_leases,
            self.wrong_refusals, self.stuck_leases,
        )  # fmt: skip
        return not any(broken) and (self.served_share is None or self.served_share >= 0.95)
