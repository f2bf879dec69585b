"""Settings of the puller: how much flex work a keeper takes, when it yields, and timeouts."""

from typing import Annotated

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0.01, le=86400)]
Share = Annotated[float, Meta(ge=0, le=1)]


class PullerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With the defaults an idle engine is full of flex work within two seconds."""

    # Whether this keeper pulls flex work for its replicas.
    enabled: bool = True
    # The share of a replica's slots that stays free for live requests; at least one slot.
    slots_free_share: Share = 0.0625
    # The share of a replica's slots that jobs which have waited for longer than
    # `queue.flex_wait_target_seconds` may take from live requests; at least one slot.
    reserved_share: Share = 0.03125
    # The share of a replica's slots by which its flex work may grow in a second.
    growth_share_per_second: Annotated[float, Meta(gt=0, le=100)] = 0.5
    # What is left of the allowed flex work after a cut.
    cut_factor: Share = 0.5
    # The shortest time between two cuts: the first needs a while to show.
    cut_seconds: Seconds = 0.5
    # The share of its KV cache beyond which a replica's flex work is cut. What is free of it is
    # where the prefixes of live sessions are kept: a higher mark costs them their cache.
    kv_use_max: Share = 0.45
    # Prompts of jobs that may be in reading at a replica while live requests come there, in seconds
    # of its prefill: a live prompt waits behind at most so much of them.
    unread_seconds: Seconds = 0.1
    # The same where no live request has come for `quiet_seconds`.
    unread_seconds_quiet: Seconds = 2.0
    # How long after the last live request a replica counts as quiet.
    quiet_seconds: Seconds = 5.0
    # A live first token is late beyond this multiple of its expected time; flex work is cut then.
    late_factor: Annotated[float, Meta(ge=1, le=100)] = 2.0
    # And by at least so many seconds.
    late_seconds: Seconds = 0.25
    # How often each replica is looked at.
    look_seconds: Annotated[float, Meta(ge=0.005, le=10)] = 0.05
    # Jobs of one replica that are claimed in one transaction, at most.
    claim_max: Annotated[int, Meta(ge=1, le=1000)] = 64
    # Claims of different replicas at the same time.
    claims_max: Annotated[int, Meta(ge=1, le=64)] = 2
    # The pause after a claim that found too little, the first time.
    poll_seconds: Seconds = 0.1
    # That pause doubles up to this.
    poll_seconds_max: Seconds = 1.0
    # How often what operators have paused or limited is read.
    control_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 1.0
    # How long a claimed job is a keeper's before another one may take it; renewed every third.
    lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    # How long finished jobs are gathered before they are completed together.
    gather_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.005
    # Jobs that are completed in one transaction, at most.
    complete_max: Annotated[int, Meta(ge=1, le=1000)] = 100
    # Transactions that complete jobs at the same time.
    completions_max: Annotated[int, Meta(ge=1, le=16)] = 2
    # Openings of prompts that are remembered for each replica, to prefer jobs that begin alike.
    openings_max: Annotated[int, Meta(ge=1, le=65536)] = 256
    # How long a replica gets no jobs after one failed there, the first time; doubles.
    rest_seconds: Seconds = 1.0
    # That rest never grows beyond this.
    rest_seconds_max: Seconds = 30.0
    # How long a job is put off that could not be begun, because its payload or the journal's disk
    # could not be reached.
    defer_seconds: Seconds = 2.0
    # How long jobs may go on after SIGTERM before they are handed back.
    drain_seconds: Annotated[float, Meta(ge=0, le=86400)] = 20.0
    # How long a keeper that ends tries to write down what it has finished.
    last_write_seconds: Annotated[float, Meta(ge=0, le=600)] = 5.0
    # The pause before a puller that failed as a whole is started again.
    restart_seconds: Seconds = 5.0
    # Parts of prompts that a keeper remembers, over its replicas.
    links_max: Annotated[int, Meta(ge=1024, le=2**26)] = 2**16
    # Sessions that a keeper remembers; up to 3 kilobytes each.
    sessions_max: Annotated[int, Meta(ge=1, le=10**6)] = 1000
    # How far a job's place in the engine's own queue is behind live requests.
    engine_priority: Annotated[int, Meta(ge=1, le=10**6)] = 10
