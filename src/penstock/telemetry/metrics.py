"""The gateway's metrics as workers send them to the collector, which adds them up.

Every metric is declared in METRICS with its help text, and documented (a test compares). The
workers' own counters are in `counters`.
"""

from typing import Final

import msgspec

# No fixed length: compiled code unpacks tuples of a fixed length, and made a new tuple for each
# label that is counted.
Bounds = tuple[float, ...]

# Upper bounds in seconds. First tokens range from a warm small model to a cold 256k-token prompt.
FIRST_TOKEN_BUCKETS: Final[Bounds] = (
    0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0,
)  # fmt: skip
OUTPUT_TOKEN_BUCKETS: Final[Bounds] = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0,
)  # fmt: skip
# A wait ends at `admission.wait_seconds_max`, for a model at zero at `wake_seconds_max`.
WAIT_BUCKETS: Final[Bounds] = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
# Tokens of a turn, and a prompt's growth since the previous turn, negative after a compaction.
TURN_BUCKETS: Final[Bounds] = (
    256.0, 1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0,
)  # fmt: skip
GROWTH_BUCKETS: Final[Bounds] = (
    -4096.0,
    -256.0,
    0.0,
    128.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    16384.0,
    65536.0,
)

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
    "penstock_wait_seconds": "How long requests waited for a free slot, of those that had to wait.",
    "penstock_retries_total": "Tries beyond a request's first.",
    "penstock_ejected_replicas": "Replicas left out because they failed.",
    "penstock_ready_replicas": "Replicas in the roster that are ready.",
    "penstock_unready_models": (
        "1 for a model whose replicas start, none of them ready, unless it wakes for requests."
    ),
    "penstock_client_connections": "Open connections from clients.",
    "penstock_engine_connections": "Open connections to engines.",
    "penstock_workers": "Gateway workers that answered the collector.",
    "penstock_workers_wanted": "Gateway workers that the settings want.",
    "penstock_host_silent_seconds": (
        "Time since a host's keeper last reported, of hosts that should have one."
    ),
    "penstock_charged_usd_total": "Dollars charged, by the price book.",
    "penstock_client_retries_total": "Requests that a client sent as its own retry, by outcome.",
    "penstock_replica_first_token_seconds": "First-token time by replica, while it runs.",
    "penstock_workflow_first_token_seconds": "First-token time of streams, by workflow.",
    "penstock_workflow_requests_total": "Finished requests by workflow, by how they ended.",
    "penstock_recovered_total": (
        "Requests of workflows that needed another try, by how they ended."
    ),
    "penstock_family_prompt_tokens_total": (
        "Prompt tokens by prompt family, of prompts whose cached count is known."
    ),
    "penstock_family_cached_tokens_total": "Cached prompt tokens by prompt family.",
    "penstock_turn_tokens": "Prompt and output tokens of requests that name a session.",
    "penstock_turn_growth_tokens": "Prompt tokens more than in the turn before of one session.",
    "penstock_limit_refusals_total": "Requests refused by a limit, by its scope and kind.",
    "penstock_limit_warnings_total": "Soft limits that were passed, by scope and kind.",
    "penstock_leases_held": "Slices of limits that workers hold now.",
    "penstock_lease_round_trips_total": "Times that Postgres was asked for a slice of a limit.",
    "penstock_beyond_leases_total": "Requests let on beyond their leases while Postgres was away.",
    "penstock_journal_bytes": "Journal files on disk.",
    "penstock_journal_bytes_max": "The size at which journals are full and requests are refused.",
    "penstock_journal_refusals_total": "Requests refused because the journal had no room.",
    "penstock_journals_adopted_total": "Journals of dead workers that were drained.",
    "penstock_ledger_rows_total": "Attempts written into the ledger.",
    "penstock_ledger_unwritable_total": "Attempts that Postgres refused, put aside in a file.",
    "penstock_drain_failures_total": "Times that the journal could not be drained.",
    "penstock_responses_unstored_total": "Responses that were served and could not be stored.",
    "penstock_contract_effects_total": (
        "What contracts changed of requests, or would have in observe mode, by contract and kind."
    ),
    "penstock_contract_unknown_total": "Requests whose task is no class of their contract.",
    "penstock_decision_chain_breaks": (
        "Breaks of the log of decisions that control found within `contracts.breaks_days`."
    ),
    "penstock_contracts_refused": "Workers that cannot take the set of contracts in force.",
    "penstock_route_cached_expected_total": (
        "Prompt tokens that routing expected to be cached, of answers that report cached tokens."
    ),
    "penstock_route_cached_real_total": "Prompt tokens of the same answers that were cached.",
    "penstock_session_moves_total": "Turns not served where their session was last, by reason.",
    "penstock_ejections_total": "Times that a replica was left out because it failed.",
    "penstock_index_links": "Parts of prompts that workers remember, with who holds them.",
    "penstock_index_bytes": "Memory that these take.",
    "penstock_sessions_remembered": "Sessions whose last replica workers remember.",
    "penstock_peers_heard": (
        "Peers (gateway workers and keepers) whose signals arrive, at the worker with the fewest."
    ),
    "penstock_workers_in_silence": "Workers that no longer receive signals of a gateway worker.",
    "penstock_signals_sent_total": "Messages that workers sent to peers.",
    "penstock_signals_heard_total": "Messages of peers that were received and accepted.",
    "penstock_signals_trimmed_total": "Messages that had to leave something out.",
    "penstock_signal_failures_total": "Messages or turns that failed by a fault of our own.",
    "penstock_signals_dropped_total": "Messages not listened to or not sent, by reason.",
    "penstock_flex_queued": "Jobs of the whole cell that wait.",
    "penstock_flex_running": "Jobs of the whole cell that run.",
    "penstock_flex_oldest_seconds": "How long the oldest waiting job has waited.",
    "penstock_flex_jobs_per_second": "Jobs that end in a second, over the last minute or so.",
    "penstock_flex_started_soon_ratio": "Of the jobs, the share begun within five minutes.",
    "penstock_webhook_tries_total": "Webhooks that were sent, by how the try ended.",
    "penstock_webhook_oldest_seconds": "Age of the oldest webhook that is still to be delivered.",
    "penstock_log_lines_dropped_total": (
        "Log lines of workers dropped because standard error was not read or could not be written."
    ),
    "penstock_traces_dropped_total": (
        "Traces that were not sent: too many waited, or the collector did not take them."
    ),
    "penstock_event_streams": "Open streams of events.",
}

OTHER: Final = "other"


class Histogram(msgspec.Struct):
    """Counts per bucket (the last one is everything above the bounds), and the sum."""

    counts: list[int]
    sum: float = 0.0


def _first_token() -> Histogram:
    return Histogram([0] * (len(FIRST_TOKEN_BUCKETS) + 1))


def _output_token() -> Histogram:
    return Histogram([0] * (len(OUTPUT_TOKEN_BUCKETS) + 1))


def _wait() -> Histogram:
    return Histogram([0] * (len(WAIT_BUCKETS) + 1))


def _turn_tokens() -> Histogram:
    return Histogram([0] * (len(TURN_BUCKETS) + 1))


def _turn_growth() -> Histogram:
    return Histogram([0] * (len(GROWTH_BUCKETS) + 1))


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
    wait: Histogram = msgspec.field(default_factory=_wait)
    charged_nanousd: int = 0
    client_retries: dict[str, int] = {}
    turn_tokens: Histogram = msgspec.field(default_factory=_turn_tokens)
    turn_growth: Histogram = msgspec.field(default_factory=_turn_growth)


class LabelRow(msgspec.Struct):
    """The numbers of an account's workflow or prompt family, or of a model's replica."""

    account: str
    label: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    first_token: Histogram = msgspec.field(default_factory=_first_token)
    # Requests by how they ended: all, and those that needed another try.
    outcomes: dict[str, int] = {}
    retried: dict[str, int] = {}


class Gauges(msgspec.Struct):
    """A worker's current values, in addition to its rows."""

    waiting: dict[str, int] = {}
    ready_replicas: dict[str, int] = {}
    ejected_replicas: int = 0
    client_connections: int = 0
    engine_connections: int = 0
    # Numbers without labels, by metric, which the collector sums over the workers.
    sums: dict[str, int] = {}
    # By metric, then by `scope measure period` of a limit.
    limits: dict[str, dict[str, int]] = {}
    # By metric, then by "contract kind mode".
    contracts: dict[str, dict[str, int]] = {}
    # By metric, then by reason.
    reasons: dict[str, dict[str, int]] = {}
    peers_heard: int = 0
    # Figures of the whole cell, which every worker reads: by metric, then by `label value` or "".
    cell: dict[str, dict[str, float]] = {}


class Snapshot(msgspec.Struct):
    """All metrics of one worker, as it sends them to the collector."""

    rows: list[Row]
    gauges: Gauges
    workflows: list[LabelRow] = []
    families: list[LabelRow] = []
    # By model and replica.
    replicas: list[LabelRow] = []
