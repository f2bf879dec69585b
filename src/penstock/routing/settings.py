"""Settings of the choice of a replica."""

from typing import Annotated

import msgspec
from msgspec import Meta


class RoutingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a replica is chosen, what is remembered, and how those that failed are left out."""

    # Two costs are a near-tie within this share: a session then stays where it is.
    near_margin: Annotated[float, Meta(ge=0, le=1)] = 0.03
    # The same while other gateways are not heard: staying is worth more when one knows less.
    near_margin_silent: Annotated[float, Meta(ge=0, le=1)] = 0.15
    # What an uncached prompt token makes others wait, as a multiple of its own time.
    harm_weight: Annotated[float, Meta(ge=0, le=100)] = 3.0
    # A fleet of a model up to this size is weighed in full; of a larger one the replicas that hold
    # the prompt, the least loaded and the session's home.
    weighed_replicas_max: Annotated[int, Meta(ge=1, le=512)] = 13
    # Tokens of one block of the engines' prefix caches; a shorter prompt stays with its session.
    block_tokens: Annotated[int, Meta(ge=1, le=65536)] = 16
    # Tokens in an engine's KV cache, where no keeper has said how many it has.
    kv_tokens: Annotated[int, Meta(ge=1024, le=10**9)] = 400_000
    # Prompt tokens a second that an engine prefills, until its answers have taught it.
    prefill_rate: Annotated[float, Meta(gt=0, le=1e9)] = 15_000.0
    # Bytes of a prompt that make a token, until answers have taught it.
    bytes_per_token: Annotated[float, Meta(ge=0.5, le=100)] = 4.0
    # Links of prompts that a worker remembers, over all replicas; about 50 bytes each.
    links_max: Annotated[int, Meta(ge=1024, le=2**26)] = 2**20
    # Replicas that are remembered for one link: a common system prompt has as many candidates.
    holders_max: Annotated[int, Meta(ge=1, le=64)] = 8
    # Sessions whose last replica and prompts a worker remembers; 0.5 to 3 kilobytes each.
    sessions_max: Annotated[int, Meta(ge=1, le=10**7)] = 50_000
    # How long a session stays away from the replica that failed its last request.
    failed_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    # How long other gateways' claims alone may keep requests from a replica that we could try.
    claim_seconds: Annotated[float, Meta(ge=0, le=60)] = 2.0
    # How long a replica that failed is left alone before it is probed for the first time.
    eject_seconds: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    # How often an ejected replica is probed; it comes back with its first healthy answer.
    probe_seconds: Annotated[float, Meta(gt=0, le=3600)] = 1.0
