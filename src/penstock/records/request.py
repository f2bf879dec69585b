"""One request on its way down the path, and what is known of it at its end."""

from enum import StrEnum
from typing import NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Standing
from penstock.records.model import Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.usage import Usage

RequestId = NewType("RequestId", str)


class Api(StrEnum):
    """In which of an engine's APIs a request is written: the shape of its body and its answer."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    RESPONSES = "responses"


class InferenceRequest(msgspec.Struct, frozen=True):
    """What every stage sees. `body` is the caller's JSON object, name to raw value."""

    id: RequestId
    account: AccountId
    key: KeyId
    model: Model
    body: dict[str, msgspec.Raw]
    is_stream: bool
    cache_salt: str
    api: Api = Api.CHAT
    session: str = ""
    wants_usage: bool = False
    wants_continuous_usage: bool = False
    choices: int = 1
    reject_if_busy: bool = False
    caller_request_id: str = ""
    # When it was asked, in seconds since 1970: the time in `id`.
    asked_at: float = 0.0
    tier: Tier = Tier.NOW
    price: Price = Price()
    workflow: str = ""
    prompt_family: str = ""
    # How often the client says that it has tried this before; None when it says nothing.
    client_retry: int | None = None
    # What a budget reserves: the prompt by its bytes and images, and all choices at their longest.
    prompt_tokens_estimate: int = 0
    output_tokens_max: int = 0
    # Whether the account wants no use beyond its leases while Postgres is away.
    on_outage_refuse: bool = False
    chain: PromptChain = PromptChain()
    # Which conversation this is, scoped by account; 0 when nothing tells.
    session_key: int = 0
    # Whether its session stays where its cache is even when that is slower.
    is_affinity_strict: bool = False
    # The only replica that may run it: a job runs where it was pulled for. Empty: any.
    only_replica: str = ""
    # Its place in the engine's own line; a higher number is later. 0 is what is wanted now.
    engine_priority: int = 0
    # Attempts before these: a job goes on counting when it is run again.
    attempt_base: int = 0


class Outcome(StrEnum):
    """How a request ended, for the log line and the metrics."""

    OK = "ok"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"
    # Left open by a process that died; found in its journal.
    INTERRUPTED = "interrupted"


class RequestEnd(msgspec.Struct):
    """The facts of one finished request: filled in along the path, logged once, counted once."""

    attempts: int = 0
    replica: str = ""
    # What routing expected of the last attempt: prompt tokens in the replica's cache, why the
    # session moved (`load`, `drain`, `lost`), and which part of its prompt was no longer the same.
    cached_expected: int | None = None
    session_moved: str = ""
    cache_break: str = ""
    usage: Usage | None = None
    waited_seconds: float = 0.0
    first_token_seconds: float | None = None
    # From the first data line of a stream to its last; None when nothing was streamed.
    streamed_seconds: float | None = None
    total_seconds: float = 0.0
    outcome: Outcome = Outcome.OK
    error_code: str = ""
    status: int = 0
    charge_nanousd: int = 0
    # Prompt and output of all attempts.
    tokens: int = 0
    # The caller had some of an answer whose usage nobody knows.
    is_uncounted: bool = False
    # Of a job: its last attempt as a line of the ledger with its charge, for the completion.
    charged_line: bytes = b""
    # Where the caller stands with its hard limits, and which soft ones it has passed.
    standings: tuple[Standing, ...] = ()
    warnings: tuple[Standing, ...] = ()
