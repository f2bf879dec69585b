"""Messages that gateways and keepers exchange several times a second. Nothing here is durable.

Ages are in seconds before the message was made, so that the hosts' clocks need not agree. No number
is trusted: receivers clamp it, and a wrong one at worst makes routing less good for a moment.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

Word = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**40)]
Age = Annotated[float, Meta(ge=0, le=1e6)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]


class PeerState(StrEnum):
    """Whether the other gateway workers' messages arrive; routing differs while some do not."""

    # No other worker is known, so this worker's own load is all there is.
    ALONE = "alone"
    HEARD = "heard"
    # A recently heard worker sends no more messages, or this worker can receive none at all.
    SILENT = "silent"


class LoadClaim(msgspec.Struct, frozen=True, array_like=True):
    """The load of one gateway worker at one replica."""

    replica: Name
    # Uncached prompt tokens of requests without a first token, and of the oldest of them.
    outstanding: Count
    head_tokens: Count
    head_age: Age
    # Since the latest first token from the replica.
    progress_age: Age
    in_flight: Count
    decoding: Count
    # Prompt tokens of all requests in flight.
    prompt_tokens: Count


class SentPrompt(msgspec.Struct, frozen=True, array_like=True):
    """A request sent to a replica: its session, and the links that are new at that replica.

    Unless `start` is 0, the first of `links` is the known link that the new ones follow.
    """

    session: Word
    replica: Name
    # The index of the first of `links` in its chain.
    start: Count
    links: list[Word]
    # Tokens of each of these links alone.
    tokens: list[Count]
    opening: Word = 0
    # Tokens of the links before `start`; whether an engine counted those up to the first link.
    before: Count = 0
    is_counted: bool = False


class SignalBatch(msgspec.Struct, frozen=True, array_like=True):
    """The prompts sent since the previous batch; repeated in the next two messages."""

    # The number of the message that carried it first.
    number: Word
    sent: list[SentPrompt]


class EngineClaim(msgspec.Struct, frozen=True, array_like=True):
    """The figures that a keeper read from an engine. 0 means that the engine does not report it."""

    replica: Name
    is_healthy: bool
    running: Count = 0
    waiting: Count = 0
    kv_use: Annotated[float, Meta(ge=0, le=1)] = 0.0
    kv_tokens: Count = 0
    # Uncached prompt tokens per second while the engine was prefilling.
    prefill_rate: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    # Requests that the keeper itself has at the engine (flex work), and their prompt tokens.
    own_requests: Count = 0
    own_tokens: Count = 0
    # Tokens in a block of the prefix cache: engines cache whole blocks only.
    block_tokens: Count = 0


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """One message of one sender. `number` grows with every message, across restarts too."""

    sender: Word
    number: Word
    # Senders on the same host share a table of loads and do not add each other's messages.
    host: Name
    loads: list[LoadClaim] = []
    batches: list[SignalBatch] = []
    engines: list[EngineClaim] = []
    # The sender ends, so its later silence is not a failure.
    is_last: bool = False
