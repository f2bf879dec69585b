"""Answers about usage: rows of sums, the turns of a session, one request with its attempts.

Each amount of money is there twice: `..._nanousd`, an integer to calculate with, and `..._usd`, the
same as an exact decimal. An unknown ratio is null, never 0.
"""

from datetime import date, datetime

import msgspec


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over what shares these labels and, if asked by hour or day, this `start`."""

    start: datetime | None
    labels: dict[str, str]
    requests: int
    attempts: int
    ok: int
    client_left: int
    failed: int
    interrupted: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    # Of prompts whose cached part is known, the part that was cached.
    hit_ratio: float | None
    cost_nanousd: int
    cost_usd: str
    saved_nanousd: int
    saved_usd: str
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None
    # Requests that the client sent as a retry of its own, and how many of them were served.
    retried: int
    retried_ok: int
    retry_success: float | None
    # By reason; null where refusals do not have the requested labels.
    refusals: dict[str, int] | None


class UsageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/usage`. With `has_more`, rows beyond the limit were left out."""

    since: datetime
    until: datetime
    by: str | None
    group_by: tuple[str, ...]
    rows: list[UsageRow]
    has_more: bool
    object: str = "usage"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a session. Unknown counts are null."""

    number: int
    request: str
    asked_at: datetime
    model: str
    outcome: str
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    # Prompt and output together.
    tokens: int | None
    first_token_ms: float | None
    duration_ms: float
    cost_nanousd: int
    cost_usd: str
    # Which replica answered last.
    replica: str
    # Why the session moved to it, "load", "drain" or "lost", and which part of the prompt broke the
    # cache; "" for neither.
    session_moved: str
    cache_break: str


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/usage/sessions/{session}`. The sums are over all turns, also those left out."""

    account: str
    session: str
    since: datetime
    until: datetime
    turn_count: int
    tokens_per_turn: float | None
    # The prompt's growth in tokens from turn to turn: the least-squares slope.
    prompt_growth_tokens: float | None
    hit_ratio: float | None
    cost_nanousd: int
    cost_usd: str
    turns: list[Turn]
    has_more: bool
    object: str = "usage.session"


class ChargeLine(msgspec.Struct, frozen=True, kw_only=True):
    """So many tokens of a kind at so much for a million of them."""

    kind: str
    tokens: int
    nanousd_per_mtok: int
    # The product; a million of these are one nano-dollar.
    product: int


class Calculation(msgspec.Struct, frozen=True, kw_only=True):
    """How the charge came about: the lines' sum times the multiplier, rounded once, half up."""

    lines: list[ChargeLine]
    multiplier_bp: int
    calculated_nanousd: int
    # The same as one line of text.
    text: str


class AttemptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the ledger, every column of it, and how its charge was calculated."""

    day: date
    request: str
    attempt: int
    account: str
    key: str
    model: str
    replica: str
    session: str
    prompt_family: str
    workflow: str
    tier: str
    is_stream: bool
    client_retry: int | None
    caller_request: str
    asked_at: datetime
    waited_ms: float
    first_token_ms: float | None
    output_tokens_per_second: float | None
    duration_ms: float
    prompt_tokens: int | None
    cached_tokens: int | None
    is_cached_estimated: bool
    # The cached tokens that routing expected, why the session left its last replica (`load`,
    # `drain` or `lost`), and the first part of the prompt that had changed since its last turn.
    cached_expected: int | None
    session_moved: str
    cache_break: str
    output_tokens: int | None
    outcome: str
    error: str
    input_nanousd_per_mtok: int
    cached_input_nanousd_per_mtok: int
    output_nanousd_per_mtok: int
    multiplier_bp: int
    charge_nanousd: int
    charge_reason: str
    # The turn that it was a step of, what it was for, and what its contract chose.
    parent_id: str
    purpose: str
    contract: str
    task: str
    model_asked: str
    # When it came into the ledger; null for attempts from before the ledger knew.
    drained_at: datetime | None
    charge_usd: str
    calculation: Calculation


class RequestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/usage/requests/{id}`. At most one of the attempts carries a charge."""

    id: str
    account: str
    asked_at: datetime
    cost_nanousd: int
    cost_usd: str
    attempts: list[AttemptAnswer]
    object: str = "usage.request"
