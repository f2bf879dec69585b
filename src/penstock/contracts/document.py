"""A contract as it is written: the tables and keys of its TOML file, and their bounds.

Every table is optional; what is absent is not looked at. `reading.py` turns a file into these
records, `compiling.py` finds their models in the catalogue.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA = 1
# `$` would also match before a line break at the end.
NAME_PATTERN = r"^[A-Za-z0-9._:/-]{1,64}\Z"
# The contract of requests that name no workflow, or one that has no contract of its own.
DEFAULT_NAME = "default"
# The caller leaves the choice of a model to its contract by this name.
AUTO_MODEL = "auto"
# The class of a request that neither its caller nor a rule puts into one.
DEFAULT_CLASS = "default"
# The least that outputs of tools may be cut to.
OUTPUT_BYTES_MIN = 1024

ContractName = Annotated[str, Meta(pattern=NAME_PATTERN)]
ClassName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Text = Annotated[str, Meta(min_length=1, max_length=256)]
Texts = Annotated[frozenset[Text], Meta(min_length=1, max_length=200)]
# Names of tools, in which `*` stands for any characters.
Pattern = Annotated[str, Meta(pattern=r"^[^\s\"\\]{1,128}\Z")]
Patterns = Annotated[frozenset[Pattern], Meta(max_length=200)]
ApiName = Literal["chat", "completions", "embeddings", "messages", "responses", "run"]
Tokens = Annotated[int, Meta(ge=1, le=10**8)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Amount = Annotated[int, Meta(ge=1, le=10**15)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]


class Mode(StrEnum):
    """Whether a contract changes requests, or only records what it would have done."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class AskedModel(StrEnum):
    """What becomes of the model that a caller names.

    `obey`: it is used if the contract names it, else the request is refused. `override`: the class
    decides. `refuse`: a caller may name only the model that the class gives, or `auto`.
    """

    OBEY = "obey"
    OVERRIDE = "override"
    REFUSE = "refuse"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class PromptTerms(_Table, frozen=True):
    """How long a prompt may be, estimated by its bytes."""

    tokens_max: Tokens | None = None


class OutputTerms(_Table, frozen=True):
    """How long an answer may be, and how many a request may ask for."""

    tokens_max: Tokens | None = None
    choices_max: Annotated[int, Meta(ge=1, le=128)] | None = None


class ToolOutputTerms(_Table, frozen=True):
    """How much a model sees of one output of a tool; what is longer loses its middle."""

    bytes_max: Annotated[int, Meta(ge=OUTPUT_BYTES_MIN, le=16 * 2**20)]
    # The part of what is kept that is its end.
    tail_share: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.4
    # Tools whose outputs stay whole; `*` stands for any characters.
    exempt: Texts | None = None


class FirstToken(_Table, frozen=True):
    """The time until the first token, by percentile."""

    p50: Milliseconds | None = None
    p95: Milliseconds | None = None
    p99: Milliseconds | None = None


class Objectives(_Table, frozen=True):
    """What the workflow is held to; `penstock contracts alerts` makes alerts of it.

    `recovered` is the share of requests that succeeded among those that needed another try.
    """

    first_token_ms: FirstToken | None = None
    success: Share | None = None
    recovered: Share | None = None
    window_days: Annotated[int, Meta(ge=1, le=90)] = 28


class When(_Table, frozen=True):
    """Conditions on a request; all that are given must hold.

    They see the opening of a conversation (tools, system, first user message) and never the turn:
    otherwise the model would change within a session, and lose its cache.
    """

    api: ApiName | None = None
    stream: bool | None = None
    # How many tools are offered, and a name among them: `*` stands for any characters.
    tools: Count | None = None
    tools_min: Count | None = None
    tools_max: Count | None = None
    tool: Text | None = None
    structured: bool | None = None
    # Whether the opening has images.
    images: bool | None = None
    opening_bytes_min: Count | None = None
    opening_bytes_max: Count | None = None
    # Of the answer, as the caller bounds it; no bound fulfils neither.
    output_tokens_min: Count | None = None
    output_tokens_max: Count | None = None
    reasoning_effort: Text | None = None
    # The id or the name of the caller's key.
    key: Text | None = None
    # The model as the caller named it: an id or an alias.
    model: Text | None = None


class ClassRule(_Table, frozen=True, rename={"class_": "class"}):
    """The class of requests that fulfil all conditions."""

    class_: ClassName
    when: When


class ModelTerms(_Table, frozen=True, rename={"class_": "class"}):
    """Which model serves which class of requests."""

    default: Text
    class_: Annotated[dict[ClassName, Text], Meta(max_length=50)] = {}
    asked: AskedModel = AskedModel.OBEY
    # The first that matches counts, after the caller's own `x-penstock-task`.
    rule: Annotated[tuple[ClassRule, ...], Meta(max_length=50)] = ()


class Amounts(_Table, frozen=True):
    """How much may be used in windows that begin with the minute, day or month in UTC."""

    requests_per_minute: Amount | None = None
    requests_per_day: Amount | None = None
    requests_per_month: Amount | None = None
    tokens_per_minute: Amount | None = None
    tokens_per_day: Amount | None = None
    tokens_per_month: Amount | None = None
    # Exact, down to a billionth.
    usd_per_day: Decimal | None = None
    usd_per_month: Decimal | None = None


class Fallback(_Table, frozen=True):
    """The cheaper model that serves requests when money is short.

    That is when a limit on money has too little for the request, or `left_share_min` of it is left.
    """

    model: Text
    left_share_min: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class Budget(Amounts, frozen=True):
    """How much each account may use under this contract, and each session of it."""

    session: Amounts | None = None
    fallback: Fallback | None = None


class ToolVerdict(StrEnum):
    """Whether a tool may be offered and called."""

    ALLOW = "allow"
    DENY = "deny"


class OfferedTools(StrEnum):
    """What becomes of forbidden tools in a request: taken out, a reason to refuse it, or left."""

    STRIP = "strip"
    REFUSE = "refuse"
    LEAVE = "leave"


class ForbiddenCall(StrEnum):
    """What becomes of an answer that calls a forbidden tool.

    `note`: a sentence takes the place of the call, in answers that engines make as chat.
    """

    ERROR = "error"
    NOTE = "note"


class TextCalls(StrEnum):
    """Whether an answer may have calls that are written as text."""

    DENY = "deny"
    LEAVE = "leave"


class ToolTable(_Table, frozen=True):
    """Which tools a request may offer, and which an answer may call."""

    default: ToolVerdict
    # The longest pattern that matches a name counts; of equals, deny.
    allow: Patterns = frozenset()
    deny: Patterns = frozenset()
    offered: OfferedTools = OfferedTools.STRIP
    on_forbidden: ForbiddenCall = ForbiddenCall.ERROR
    text_calls: TextCalls = TextCalls.DENY


class Contract(_Table, frozen=True):
    """What one workflow may do, and what it may cost."""

    schema: Literal[1]
    name: ContractName
    # Ids of accounts, or "*" for all.
    accounts: Texts = frozenset(("*",))
    mode: Mode = Mode.ENFORCE
    # Whether only requests that call themselves uncritical fall back.
    critical: bool = False
    prompt: PromptTerms | None = None
    output: OutputTerms | None = None
    tool_output: ToolOutputTerms | None = None
    objectives: Objectives | None = None
    models: ModelTerms | None = None
    budget: Budget | None = None
    tools: ToolTable | None = None
