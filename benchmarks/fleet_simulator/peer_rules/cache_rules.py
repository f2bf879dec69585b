"""Peers' rules that weigh what is cached against load."""

from collections.abc import Sequence
from random import Random

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.flight import Flight
from fleet_simulator.peer_rules.load_rules import LeastRequests
from fleet_simulator.peer_rules.view import ReplicaView

# Ties are broken at random, by less than any difference that means something.
_TIE = 1e-9


class CacheAware:
    """The SGLang router's: the longest match if it is 0.3 of the prompt, unless load is uneven."""

    imbalance_requests = 64
    imbalance_ratio = 1.5
    match_share_min = 0.3

    def __init__(self, random: Random) -> None:
        self._least = LeastRequests(random)

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        most = max(view.in_flight for view in views)
        least = min(view.in_flight for view in views)
        if most - least > self.imbalance_requests and most > self.imbalance_ratio * least:
            return self._least.choose(flight, views)
        best = min(views, key=lambda view: (-view.cached_tokens, view.in_flight))
        if best.cached_tokens / flight.request.prompt_tokens > self.match_share_min:
            return best.replica
        return self._least.choose(flight, views)


class Dynamo:
    """Prompt blocks to compute, queued ones included, plus the blocks that would be held."""

    overlap_weight = 1.0

    def __init__(self, random: Random, kv_tokens: int) -> None:
        self._random = random
        self._kv_blocks = kv_tokens // BLOCK_TOKENS

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        prompt = flight.request.prompt_tokens

        def cost(view: ReplicaView) -> float:
            compute = (view.queued_tokens + prompt - view.cached_tokens) / BLOCK_TOKENS
            held = view.kv_use * self._kv_blocks + prompt / BLOCK_TOKENS
            return (self.overlap_weight * compute + held) * (1 + _TIE * self._random.random())

        return min(views, key=cost).replica


class LlmD:
    """The weighted sum of llm-d's scorers: prefix 3, queue 2, KV use 2."""

    prefix_weight = 3.0
    queue_weight = 2.0
    kv_weight = 2.0

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        prompt = flight.request.prompt_tokens
        most = max(view.waiting for view in views)
        span = most - min(view.waiting for view in views)

        def score(view: ReplicaView) -> float:
            queue = (most - view.waiting) / span if span else 1.0
            return (
                self.prefix_weight * view.cached_tokens / prompt
                + self.queue_weight * queue
                + self.kv_weight * max(0.0, 1 - view.kv_use)
                + _TIE * self._random.random()
            )

        return max(views, key=score).replica


class LMetric:
    """New prompt tokens times requests in flight; in one reading queued tokens count as new."""

    def __init__(self, random: Random, *, counts_queued: bool) -> None:
        self._random = random
        self._counts_queued = counts_queued

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        prompt = flight.request.prompt_tokens

        def cost(view: ReplicaView) -> float:
            tokens: float = prompt - view.cached_tokens
            if self._counts_queued:
                tokens += view.queued_tokens
            return tokens * (view.in_flight + 1) * (1 + _TIE * self._random.random())

        return min(views, key=cost).replica


class ExpectedFirstToken:
    """The least expected time to first token; ties go to fewer decodes."""

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        prompt = flight.request.prompt_tokens

        def cost(view: ReplicaView) -> tuple[float, int]:
            return max(1, prompt - view.cached_tokens) + view.queued_tokens, view.decoding

        return min(views, key=cost).replica
