"""A catalogue entry: a model's names, capabilities and prices, and how to start its engine."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, NewType

import msgspec
from msgspec import Meta

from penstock.records.price import Prices

ModelId = NewType("ModelId", str)


class Family(StrEnum):
    """The format of a model's answers on the Workers AI API."""

    OPENAI = "openai"
    NATIVE = "native"
    # OpenAI's Responses format; also chat, for requests in chat format.
    RESPONSES = "responses"
    # Makes vectors, not text.
    EMBEDDINGS = "embeddings"


class Capability(StrEnum):
    """A feature that a request may use; a refusal names the feature that the model lacks."""

    TOOLS = "tools"
    VISION = "vision"
    REASONING = "reasoning"
    STRUCTURED_OUTPUT = "structured_output"
    LORA = "lora"
    ASYNC_QUEUE = "async_queue"


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a model's weights come from: `hf:owner/name`, `s3://bucket/prefix`, or a folder."""

    source: str
    # How large they are, in 10**9 bytes.
    gigabytes: Annotated[float, Meta(gt=0, le=100_000)]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to start an engine, as data: `{port}` and `{engine_home}` in it are filled in.

    `slots_live` is how many requests one replica takes at once before it counts as busy.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    served_name: str = ""
    dialect: str = "vllm"
    # On each of its hosts.
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    # How many hosts one replica runs on at once.
    hosts: Annotated[int, Meta(ge=1, le=64)] = 1
    slots_live: Annotated[int, Meta(ge=1, le=65536)] = 256
    start_seconds_max: Annotated[int, Meta(ge=1, le=86400)] = 3600
    # The two below are left out of JSON where they are not set, so that the launches of deployments
    # which an older release wrote stay the same.
    # What a host fetches before it starts a command with `{weights}`.
    weights: Weights | msgspec.UnsetType = msgspec.UNSET
    # Arguments on all of its hosts but the first, behind those of `command`.
    part_arguments: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def has_priority(self) -> bool:
        """Whether the engine queues by priority; otherwise it refuses requests that have one."""
        pairs = zip(self.command, self.command[1:], strict=False)
        return ("--scheduling-policy", "priority") in pairs or (
            "--scheduling-policy=priority" in self.command
        )


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the catalogue."""

    id: ModelId
    family: Family
    context_tokens: Annotated[int, Meta(ge=1, le=10**8)]
    recipe: Recipe
    aliases: tuple[str, ...] = ()
    description: str = ""
    task: str = "Text Generation"
    capabilities: frozenset[Capability] = frozenset()
    # The price book, oldest row first.
    prices: tuple[Prices, ...] = (Prices(),)
    default_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] = 4096
    # The maximum number of prompt tokens for one image, which a budget reserves for it.
    image_tokens_max: Annotated[int, Meta(ge=0, le=10**7)] = 4096
    allowed_accounts: tuple[str, ...] = ()
    # The field that clients of this model read: engines send `reasoning`, Kimi K2.5's sent
    # `reasoning_content`.
    reasoning_field: Literal["reasoning", "reasoning_content"] = "reasoning"
    # What engines of this model get for a stateless request of the Responses API: the request
    # itself, or a chat request, of whose answer the response is composed.
    responses: Literal["engine", "chat"] = "engine"
    # What code that this model writes for the code interpreter must match, by its engine's grammar.
    python_pattern: Annotated[str, Meta(max_length=1000)] = ""

    def has(self, capability: Capability) -> bool:
        return capability in self.capabilities

    def prices_on(self, day: date) -> Prices:
        """Return the row of the price book that is valid on a day."""
        rows = [row for row in self.prices if row.valid_from is None or row.valid_from <= day]
        return rows[-1]
