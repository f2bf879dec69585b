"""One request explained: its attempts, what was decided, what was usual, and what stands out."""

from datetime import datetime

import msgspec

from penstock.wire.resources.decisions import DecisionAnswer
from penstock.wire.resources.usage import RequestAnswer


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One conclusion from the facts."""

    # The question that it answers: `slow`, `dear`, `cache`, `model` or `refused`.
    about: str
    # What was found, in one word, such as `waited` or `replica`.
    kind: str
    said: str
    # What to do about it; empty where there is nothing to do.
    advice: str = ""


class ReplicaHour(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica of the model did in the request's hour."""

    replica: str
    requests: int
    failed: int
    first_token_p50_ms: float | None


class UsualRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The mean request of the same account, workflow and model in the seven days before."""

    requests: int
    prompt_tokens: float
    output_tokens: float
    hit_ratio: float | None
    cost_nanousd: float
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None


class RefusedMinute(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of an account were refused for one reason in the request's minute."""

    account: str
    reason: str
    count: int


class ExplanationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one request. `request` is null if nothing ran for it."""

    id: str
    # The id of its trace, unless the caller's `traceparent` named another one. The ledger does not
    # keep the caller's; the request's log line has it.
    own_trace: str
    asked_at: datetime
    # A paragraph of plain words, made of what stands out.
    summary: str
    findings: list[Finding]
    request: RequestAnswer | None
    decisions: list[DecisionAnswer]
    replicas: list[ReplicaHour]
    usual: UsualRequest | None
    # Only where nothing ran.
    refused: list[RefusedMinute]
    object: str = "request.explanation"
