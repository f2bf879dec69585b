"""One request on the request path, and the facts about it at its end.

Plain classes, not Structs: every stage reads them, and compiled code reads a field of a compiled
class fifty times as fast. Only two fields of `RequestPlacement` change: those that are not `Final`.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Standing
from penstock.records.model import Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.tool_terms import ToolTerms
from penstock.records.trace import RequestTrace
from penstock.records.usage import Usage

if TYPE_CHECKING:
    from penstock.records.decision import LoggedDecision

RequestId = NewType("RequestId", str)

_FREE: Final = Price()
_NO_CHAIN: Final = PromptChain()


class Api(StrEnum):
    """The engine API that a request uses, which defines the format of its body and its answer."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    RESPONSES = "responses"


class RequestLabels:
    """Names that identify a request in the log, the ledger and the metrics.

    `parent_id` names the turn that this request belongs to, `purpose` and `task` what it is for,
    `contract` the contract that applied, with its version, and `model_asked` the model that the
    caller named where another one runs. Nothing sets `purpose` yet.
    """

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        session: str = "",
        workflow: str = "",
        prompt_family: str = "",
        caller_request_id: str = "",
        client_retry: int | None = None,
        parent_id: str = "",
        purpose: str = "",
        contract: str = "",
        task: str = "",
        model_asked: str = "",
    ) -> None:
        self.session: Final = session
        self.workflow: Final = workflow
        self.prompt_family: Final = prompt_family
        self.caller_request_id: Final = caller_request_id
        # The number of earlier tries that the client reports; None if it reports nothing.
        self.client_retry: Final = client_retry
        self.parent_id: Final = parent_id
        self.purpose: Final = purpose
        self.contract: Final = contract
        self.task: Final = task
        self.model_asked: Final = model_asked


# The purpose of a live request that its completion charges: the journal knows it by this label.
STEP: Final = "step"


class ChargedBy(StrEnum):
    """What writes a request's charge into the ledger: its attempt's journal, or its completion.

    Work that may be run again, such as a job, is charged by the transaction that ends it.
    """

    JOURNAL = "journal"
    COMPLETION = "completion"


class RequestTerms:
    """A request's price, token estimates and refusal rules. `asked_at` is the time in its id."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        asked_at: float = 0.0,
        tier: Tier = Tier.NOW,
        charged_by: ChargedBy = ChargedBy.JOURNAL,
        price: Price = _FREE,
        prompt_tokens_estimate: int = 0,
        output_tokens_max: int = 0,
        on_outage_refuse: bool = False,
        reject_if_busy: bool = False,
    ) -> None:
        self.asked_at: Final = asked_at
        self.tier: Final = tier
        self.charged_by: Final = charged_by
        self.price: Final = price
        # A budget reserves both: the prompt by bytes and images, all choices at maximum length.
        self.prompt_tokens_estimate: Final = prompt_tokens_estimate
        self.output_tokens_max: Final = output_tokens_max
        # Whether to refuse requests that exceed the leases while Postgres is unavailable.
        self.on_outage_refuse: Final = on_outage_refuse
        self.reject_if_busy: Final = reject_if_busy


class RequestPrompt:
    """The data sent to an engine. `body` is the caller's JSON object, name to raw value."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        body: dict[str, msgspec.Raw],
        is_stream: bool,
        cache_salt: str,
        chain: PromptChain = _NO_CHAIN,
        choices: int = 1,
        wants_usage: bool = False,
        wants_continuous_usage: bool = False,
    ) -> None:
        self.body: Final = body
        self.is_stream: Final = is_stream
        self.cache_salt: Final = cache_salt
        self.chain: Final = chain
        self.choices: Final = choices
        self.wants_usage: Final = wants_usage
        self.wants_continuous_usage: Final = wants_continuous_usage


class RequestPlacement:
    """Where a request may run, and its engine priority. The puller sets the last two for jobs."""

    def __init__(
        self,
        *,
        session_key: int = 0,
        is_affinity_strict: bool = False,
        attempt_base: int = 0,
        only_replica: str = "",
        engine_priority: int = 0,
    ) -> None:
        # Identifies the conversation within its account; 0 if unknown.
        self.session_key: Final = session_key
        # Whether the session stays on the replica with its cache even if that is slower.
        self.is_affinity_strict: Final = is_affinity_strict
        # The number of earlier attempts: a job that runs again continues its count.
        self.attempt_base: Final = attempt_base
        # The only replica that may run the request, for a job the one it was pulled for; "" is any.
        self.only_replica = only_replica
        # The priority in the engine's own queue; a higher number runs later. 0 is a live request.
        self.engine_priority = engine_priority


class InferenceRequest:
    """The request that every stage of the path gets: caller, model, and four groups of fields."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        id: RequestId,
        account: AccountId,
        key: KeyId,
        model: Model,
        prompt: RequestPrompt,
        labels: RequestLabels,
        terms: RequestTerms,
        placement: RequestPlacement,
        api: Api = Api.CHAT,
        decisions: "tuple[LoggedDecision, ...]" = (),
        tool_terms: ToolTerms | None = None,
    ) -> None:
        self.id: Final = id
        self.account: Final = account
        self.key: Final = key
        self.model: Final = model
        self.api: Final = api
        self.prompt: Final = prompt
        self.labels: Final = labels
        self.terms: Final = terms
        self.placement: Final = placement
        # What its contract changed, to be logged before it runs.
        self.decisions: Final = decisions
        # By which the tools that its answer calls are judged; None if no contract does.
        self.tool_terms: Final = tool_terms


class Outcome(StrEnum):
    """How a request ended, for the log line and the metrics."""

    OK = "ok"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"
    # The process died; its journal still had the attempt open.
    INTERRUPTED = "interrupted"


class RequestEnd:
    """The facts of one request, filled in along the path, then logged once and counted once."""

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
        trace: RequestTrace | None = None,
    ) -> None:
        self.attempts = attempts
        self.replica = replica
        # Routing's expectations of the last attempt: prompt tokens in the replica's cache, why the
        # session moved (`load`, `drain`, `lost`), and which part of its prompt had changed.
        self.cached_expected = cached_expected
        self.session_moved = session_moved
        self.cache_break = cache_break
        self.usage = usage
        self.waited_seconds = waited_seconds
        self.first_token_seconds = first_token_seconds
        # From the first data line of a stream to its last; None if nothing was streamed.
        self.streamed_seconds = streamed_seconds
        self.total_seconds = total_seconds
        self.outcome = outcome
        self.error_code = error_code
        self.status = status
        self.charge_nanousd = charge_nanousd
        # Prompt and output tokens of all attempts.
        self.tokens = tokens
        # For a job's completion: the ledger line of its last attempt, with the charge.
        self.charged_line = charged_line
        # What is left of the caller's hard limits, and which soft limits the caller has exceeded.
        self.standings = standings
        self.warnings = warnings
        # None unless requests are traced.
        self.trace = trace
