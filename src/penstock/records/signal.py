"""What gateways and keepers tell each other several times a second. Nothing here is durable.

Ages are in seconds before the message was made, so that the hosts' clocks need not agree. Every
number is a claim: whoever hears it clamps it, and at worst chooses less well for a moment.
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
    """Whether the other gateway workers can be heard; rules differ while some cannot."""

    # No other is known: what this worker sees is all there is.
    ALONE = "alone"
    HEARD = "heard"
    # One that was heard lately is not, or nothing can be heard at all.
    SILENT = "silent"


class LoadClaim(msgspec.Struct, frozen=True, array_like=True):
    """What one gateway worker has under way at one replica."""

    replica: Name
    # Uncached prompt tokens of requests without a first token, and of the oldest of them.
    outstanding: Count
    head_tokens: Count
    head_age: Age
    # Since the last first token that came from there.
    progress_age: Age
    in_flight: Count
    decoding: Count
    # Prompt tokens of everything in flight.
    prompt_tokens: Count


class SentPrompt(msgspec.Struct, frozen=True, array_like=True):
    """A request went to a replica: its session, and the links that are new there.

    The first of `links` is the one that the new ones hang on, unless `start` is 0.
    """

    session: Word
    replica: Name
    # The index of the first of `links` in its chain.
    start: Count
    links: list[Word]
    # Tokens of each of these links by itself.
    tokens: list[Count]
    opening: Word = 0
    # Tokens of the links before `start`; whether an engine has counted those up to the first link.
    before: Count = 0
    is_counted: bool = False


class SignalBatch(msgspec.Struct, frozen=True, array_like=True):
    """The prompts sent since the batch before; repeated in the next two messages."""

    # The number of the message that carried it first.
    number: Word
    sent: list[SentPrompt]


class EngineClaim(msgspec.Struct, frozen=True, array_like=True):
    """What a keeper read from an engine. 0 or -1 means that it does not say."""

    replica: Name
    is_healthy: bool
    running: Count = 0
    waiting: Count = 0
    kv_use: Annotated[float, Meta(ge=0, le=1)] = 0.0
    kv_tokens: Count = 0
    # Uncached prompt tokens a second while it was prefilling.
    prefill_rate: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    # Requests that did not come through a gateway, such as flex work, and their prompt tokens.
    own_requests: Count = 0
    own_tokens: Count = 0


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """One message of one sender. `number` grows with every message, across restarts too."""

    sender: Word
    number: Word
    # Senders with the same host share a table of loads and do not add each other's claims.
    host: Name
    loads: list[LoadClaim] = []
    batches: list[SignalBatch] = []
    engines: list[EngineClaim] = []
    # The sender ends: its silence is no failure.
    is_last: bool = False
