"""The gateway's numbers: plain integers that the path adds to, read by a collector.

Every metric is declared in METRICS with its help text, and documented (a test compares). A worker
keeps one `Row` per model and account; the collector adds up the workers' rows.
"""

from typing import Final

import msgspec

# Upper bounds in seconds. First tokens range from a warm small model to a cold 256k-token prompt.
FIRST_TOKEN_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
OUTPUT_TOKEN_BUCKETS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)

METRICS: Final = {
    "penstock_requests_total": "Finished requests, by how they ended.",
    "penstock_errors_total": "Requests that ended in an error, by its code.",
    "penstock_first_token_seconds": "Time from the engine taking a request to its first data line.",
    "penstock_output_token_seconds": "Time per output token after the first, of streams.",
    "penstock_prompt_tokens_total": "Prompt tokens that engines counted.",
    "penstock_cached_tokens_total": "Prompt tokens that came out of a prefix cache.",
    "penstock_output_tokens_total": "Output tokens that engines made.",
    "penstock_in_flight": "Requests being served now.",
    "penstock_waiting": "Requests waiting for a free slot.",
    "penstock_retries_total": "Tries beyond a request's first.",
    "penstock_ejected_replicas": "Replicas left out because they failed.",
    "penstock_ready_replicas": "Replicas in the roster that are ready.",
    "penstock_client_connections": "Open connections from clients.",
    "penstock_engine_connections": "Open connections to engines.",
    "penstock_workers": "Gateway workers that answered the collector.",
}

OTHER: Final = "other"


class Histogram(msgspec.Struct):
    """Counts per bucket (the last one is everything above), and the sum."""

    counts: list[int]
    sum: float = 0.0

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        index = 0
        for bound in bounds:
            if value <= bound:
                break
            index += 1
        self.counts[index] += 1
        self.sum += value


def _first_token() -> Histogram:
    return Histogram([0] * (len(FIRST_TOKEN_BUCKETS) + 1))


def _output_token() -> Histogram:
    return Histogram([0] * (len(OUTPUT_TOKEN_BUCKETS) + 1))


class Row(msgspec.Struct):
    """The numbers of one model and account in one worker."""

    model: str
    account: str
    in_flight: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    outcomes: dict[str, int] = {}
    errors: dict[str, int] = {}
    first_token: Histogram = msgspec.field(default_factory=_first_token)
    output_token: Histogram = msgspec.field(default_factory=_output_token)


class Gauges(msgspec.Struct):
    """What a worker holds at this moment, beside its rows."""

    waiting: dict[str, int] = {}
    ready_replicas: dict[str, int] = {}
    ejected_replicas: int = 0
    client_connections: int = 0
    engine_connections: int = 0


class Snapshot(msgspec.Struct):
    """All numbers of one worker, as it hands them to the collector."""

    rows: list[Row]
    gauges: Gauges


class Metrics:
    """Rows by model and account, bounded; accounts beyond the bound count as `other`."""

    def __init__(self, label_pairs_max: int) -> None:
        self._rows: dict[tuple[str, str], Row] = {}
        self._label_pairs_max = label_pairs_max

    def row(self, model: str, account: str) -> Row:
        row = self._rows.get((model, account))
        if row is not None:
            return row
        if len(self._rows) >= self._label_pairs_max and account != OTHER:
            return self.row(model, OTHER)
        row = self._rows[(model, account)] = Row(model, account)
        return row

    def rows(self) -> list[Row]:
        return list(self._rows.values())
