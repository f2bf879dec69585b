"""One request on its way down the path, and what is known of it at its end.

Plain classes, not Structs: every stage reads them, and compiled code reads a field of its own class
fifty times as fast.
"""

from enum import StrEnum
from typing import Final, NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Standing
from penstock.records.model import Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.usage import Usage

RequestId = NewType("RequestId", str)

_FREE: Final = Price()
_NO_CHAIN: Final = PromptChain()


class Api(StrEnum):
    """In which of an engine's APIs a request is written: the shape of its body and its answer."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    RESPONSES = "responses"


class InferenceRequest:
    """What every stage sees. `body` is the caller's JSON object, name to raw value.

    `asked_at` is when it was asked, in seconds since 1970: the time in `id`.
    """

    __slots__ = (
        "account", "api", "asked_at", "attempt_base", "body", "cache_salt", "caller_request_id",
        "chain", "choices", "client_retry", "engine_priority", "id", "is_affinity_strict",
        "is_stream", "key", "model", "on_outage_refuse", "only_replica", "output_tokens_max",
        "price", "prompt_family", "prompt_tokens_estimate", "reject_if_busy", "session",
        "session_key", "tier", "wants_continuous_usage", "wants_usage", "workflow",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        id: RequestId,
        account: AccountId,
        key: KeyId,
        model: Model,
        body: dict[str, msgspec.Raw],
        is_stream: bool,
        cache_salt: str,
        api: Api = Api.CHAT,
        session: str = "",
        wants_usage: bool = False,
        wants_continuous_usage: bool = False,
        choices: int = 1,
        reject_if_busy: bool = False,
        caller_request_id: str = "",
        asked_at: float = 0.0,
        tier: Tier = Tier.NOW,
        price: Price = _FREE,
        workflow: str = "",
        prompt_family: str = "",
        client_retry: int | None = None,
        prompt_tokens_estimate: int = 0,
        output_tokens_max: int = 0,
        on_outage_refuse: bool = False,
        chain: PromptChain = _NO_CHAIN,
        session_key: int = 0,
        is_affinity_strict: bool = False,
        only_replica: str = "",
        engine_priority: int = 0,
        attempt_base: int = 0,
    ) -> None:
        self.id: Final = id
        self.account: Final = account
        self.key: Final = key
        self.model: Final = model
        self.body: Final = body
        self.is_stream: Final = is_stream
        self.cache_salt: Final = cache_salt
        self.api: Final = api
        self.session: Final = session
        self.wants_usage: Final = wants_usage
        self.wants_continuous_usage: Final = wants_continuous_usage
        self.choices: Final = choices
        self.reject_if_busy: Final = reject_if_busy
        self.caller_request_id: Final = caller_request_id
        self.asked_at: Final = asked_at
        self.tier: Final = tier
        self.price: Final = price
        self.workflow: Final = workflow
        self.prompt_family: Final = prompt_family
        # How often the client says that it has tried this before; None when it says nothing.
        self.client_retry: Final = client_retry
        # What a budget reserves: the prompt by bytes and images, all choices at their longest.
        self.prompt_tokens_estimate: Final = prompt_tokens_estimate
        self.output_tokens_max: Final = output_tokens_max
        # Whether the account wants no use beyond its leases while Postgres is away.
        self.on_outage_refuse: Final = on_outage_refuse
        self.chain: Final = chain
        # Which conversation this is, scoped by account; 0 when nothing tells.
        self.session_key: Final = session_key
        # Whether its session stays where its cache is even when that is slower.
        self.is_affinity_strict: Final = is_affinity_strict
        # The only replica that may run it: a job runs where it was pulled for. Empty: any.
        self.only_replica = only_replica
        # Its place in the engine's own line; a higher number is later. 0 is what is wanted now.
        self.engine_priority = engine_priority
        # Attempts before these: a job goes on counting when it is run again.
        self.attempt_base: Final = attempt_base


class Outcome(StrEnum):
    """How a request ended, for the log line and the metrics."""

    OK = "ok"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"
    # Left open by a process that died; found in its journal.
    INTERRUPTED = "interrupted"


class RequestEnd:
    """The facts of one finished request: filled in along the path, logged once, counted once."""

    __slots__ = (
        "attempts", "cache_break", "cached_expected", "charge_nanousd", "charged_line",
        "error_code", "first_token_seconds", "outcome", "replica", "session_moved",
        "standings", "status", "streamed_seconds", "tokens", "total_seconds", "usage",
        "waited_seconds", "warnings",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        attempts: int = 0,
        replica: str = "",
        cached_expected: int | None = None,
        session_moved: str = "",
        cache_break: str = "",
        usage: Usage | None = None,
        waited_seconds: float = 0.0,
        first_token_seconds: float | None = None,
        streamed_seconds: float | None = None,
        total_seconds: float = 0.0,
        outcome: Outcome = Outcome.OK,
        error_code: str = "",
        status: int = 0,
        charge_nanousd: int = 0,
        tokens: int = 0,
        charged_line: bytes = b"",
        standings: tuple[Standing, ...] = (),
        warnings: tuple[Standing, ...] = (),
    ) -> None:
        self.attempts = attempts
        self.replica = replica
        # What routing expected of the last attempt: prompt tokens in the replica's cache, why the
        # session moved (`load`, `drain`, `lost`), and which part of its prompt had changed.
        self.cached_expected = cached_expected
        self.session_moved = session_moved
        self.cache_break = cache_break
        self.usage = usage
        self.waited_seconds = waited_seconds
        self.first_token_seconds = first_token_seconds
        # From the first data line of a stream to its last; None when nothing was streamed.
        self.streamed_seconds = streamed_seconds
        self.total_seconds = total_seconds
        self.outcome = outcome
        self.error_code = error_code
        self.status = status
        self.charge_nanousd = charge_nanousd
        # Prompt and output of all attempts.
        self.tokens = tokens
        # Of a job: its last attempt as a line of the ledger with its charge, for the completion.
        self.charged_line = charged_line
        # Where the caller stands with its hard limits, and which soft ones it has passed.
        self.standings = standings
        self.warnings = warnings
