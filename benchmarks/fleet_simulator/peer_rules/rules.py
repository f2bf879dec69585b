"""The peers' rules by name."""

from random import Random

from fleet_simulator.peer_rules.cache_rules import (
    CacheAware,
    Dynamo,
    ExpectedFirstToken,
    LlmD,
    LMetric,
)
from fleet_simulator.peer_rules.load_rules import (
    BoundedLoadHash,
    LeastRequests,
    RoundRobin,
    SessionHash,
)
from fleet_simulator.peer_rules.view import Rule

ROUND_ROBIN = "round robin"
LEAST_REQUESTS = "least requests"
BOUNDED_LOAD_HASH = "CHWBL session"
CACHE_AWARE = "cache_aware"
DYNAMO = "Dynamo w=1"
LLM_D = "llm-d 3/2/2"
LMETRIC_QUEUED = "LMetric (queued + new)"
LMETRIC_NEW = "LMetric (new)"
SESSION_HASH = "session hash"
LEAST_EXPECTED_WAIT = "pure ETTFT"

# What peers ship. A session hash and pure ETTFT are measures to compare with, no one's default.
PEERS = (
    ROUND_ROBIN, LEAST_REQUESTS, BOUNDED_LOAD_HASH, CACHE_AWARE, DYNAMO, LLM_D, LMETRIC_QUEUED,
    LMETRIC_NEW,
)  # fmt: skip


def build_rule(name: str, random: Random, kv_tokens: int) -> Rule:
    """A fresh one, for one gateway."""
    rules: dict[str, Rule] = {
        ROUND_ROBIN: RoundRobin(),
        LEAST_REQUESTS: LeastRequests(random),
        BOUNDED_LOAD_HASH: BoundedLoadHash(random),
        SESSION_HASH: SessionHash(),
        CACHE_AWARE: CacheAware(random),
        DYNAMO: Dynamo(random, kv_tokens),
        LLM_D: LlmD(random),
        LMETRIC_QUEUED: LMetric(random, counts_queued=True),
        LMETRIC_NEW: LMetric(random, counts_queued=False),
        LEAST_EXPECTED_WAIT: ExpectedFirstToken(),
    }
    return rules[name]
