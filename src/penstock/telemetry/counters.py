"""A worker's counters: plain numbers that the request path adds to, a row per model and account.

`Metrics.snapshot` copies them for the collector. Rows are made once and never dropped, so callers
may keep a reference to a row.
"""

from collections import Counter
from collections.abc import Container

from penstock.telemetry.metrics import (
    FIRST_TOKEN_BUCKETS,
    GROWTH_BUCKETS,
    OTHER,
    OUTPUT_TOKEN_BUCKETS,
    TURN_BUCKETS,
    WAIT_BUCKETS,
    Gauges,
    Histogram,
    LabelRow,
    Row,
    Snapshot,
)
from penstock.telemetry.session_growth import SessionGrowth


class Buckets:
    """A histogram: counts per bucket (the last one is everything above the bounds), and the sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        # Not `bisect`: most values are in the first buckets, and a call costs more than this loop.
        at = 0
        for bound in self._bounds:
            if value <= bound:
                break
            at += 1
        self.counts[at] += 1
        self.sum += value

    def histogram(self) -> Histogram:
        return Histogram(self.counts.copy(), self.sum)


class ModelCounters:
    """The numbers of one model and account."""

    def __init__(self, model: str, account: str) -> None:
        self.model = model
        self.account = account
        self.in_flight = 0
        self.retries = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.charged_nanousd = 0
        self.outcomes: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.client_retries: dict[str, int] = {}
        self.first_token = Buckets(FIRST_TOKEN_BUCKETS)
        self.output_token = Buckets(OUTPUT_TOKEN_BUCKETS)
        self.wait = Buckets(WAIT_BUCKETS)
        self.turn_tokens = Buckets(TURN_BUCKETS)
        self.turn_growth = Buckets(GROWTH_BUCKETS)

    def row(self) -> Row:
        return Row(
            model=self.model,
            account=self.account,
            in_flight=self.in_flight,
            retries=self.retries,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            outcomes=self.outcomes.copy(),
            errors=self.errors.copy(),
            first_token=self.first_token.histogram(),
            output_token=self.output_token.histogram(),
            wait=self.wait.histogram(),
            charged_nanousd=self.charged_nanousd,
            client_retries=self.client_retries.copy(),
            turn_tokens=self.turn_tokens.histogram(),
            turn_growth=self.turn_growth.histogram(),
        )


class LabelCounters:
    """The numbers of an account's workflow or prompt family, or of a model's replica."""

    def __init__(self, account: str, label: str) -> None:
        self.account = account
        self.label = label
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.first_token = Buckets(FIRST_TOKEN_BUCKETS)
        self.outcomes: dict[str, int] = {}
        self.retried: dict[str, int] = {}

    def row(self) -> LabelRow:
        return LabelRow(
            account=self.account,
            label=self.label,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            first_token=self.first_token.histogram(),
            outcomes=self.outcomes.copy(),
            retried=self.retried.copy(),
        )


class Labels:
    """Counters by account and label, with a maximum in total and per account.

    Labels beyond an account's maximum count as `other` of that account; beyond the total, every new
    label counts as `other` of the account `other`.
    """

    def __init__(self, rows_max: int, per_account_max: int) -> None:
        self._counters: dict[tuple[str, str], LabelCounters] = {}
        self._rows_of: Counter[str] = Counter()
        self._rows_max = rows_max
        self._per_account_max = per_account_max

    def of(self, account: str, label: str) -> LabelCounters:
        place = (account, label)
        counters = self._counters.get(place)
        if counters is not None:
            return counters
        taken = self._rows_of[account]
        if taken >= self._per_account_max and label != OTHER:
            return self.of(account, OTHER)
        if len(self._counters) >= self._rows_max and place != (OTHER, OTHER):
            return self.of(OTHER, OTHER)
        self._rows_of[account] = taken + 1
        counters = self._counters[place] = LabelCounters(account, label)
        return counters

    def keep_only(self, labels: Container[str]) -> None:
        """Drop the rows of all other labels: callers must not keep references to these."""
        kept = {place: row for place, row in self._counters.items() if place[1] in labels}
        self._counters = kept
        self._rows_of = Counter(account for account, _ in kept)

    def rows(self) -> list[LabelRow]:
        return [counters.row() for counters in self._counters.values()]


class Metrics:
    """Counters by model and account; accounts beyond `label_pairs_max` count as `other`."""

    def __init__(self, label_pairs_max: int, labels_per_account_max: int) -> None:
        self._counters: dict[tuple[str, str], ModelCounters] = {}
        self._label_pairs_max = label_pairs_max
        self.workflows = Labels(label_pairs_max, labels_per_account_max)
        self.families = Labels(label_pairs_max, labels_per_account_max)
        # By model and replica.
        self.replicas = Labels(label_pairs_max, label_pairs_max)
        self.turns = SessionGrowth(label_pairs_max)

    def of(self, model: str, account: str) -> ModelCounters:
        counters = self._counters.get((model, account))
        if counters is not None:
            return counters
        if len(self._counters) >= self._label_pairs_max and account != OTHER:
            return self.of(model, OTHER)
        counters = self._counters[model, account] = ModelCounters(model, account)
        return counters

    def rows(self) -> list[Row]:
        return [counters.row() for counters in self._counters.values()]

    def snapshot(self, gauges: Gauges) -> Snapshot:
        return Snapshot(
            self.rows(),
            gauges,
            self.workflows.rows(),
            self.families.rows(),
            self.replicas.rows(),
        )
