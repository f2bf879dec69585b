"""A gateway that follows a peer's rule, with what it would really know or with all there is.

Really: its own requests and their first tokens, the prefixes it has sent, and, when there are other
gateways, a snapshot of each replica every 250 ms, in which it tells its own part from the others'.
"""

from collections.abc import Collection

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.fleet import Fleet
from fleet_simulator.flight import Flight
from fleet_simulator.peer_rules.prefix_memory import PrefixMemory
from fleet_simulator.peer_rules.view import ReplicaView, Rule

# An average of the uncached prompt tokens of a request: where it starts, how fast it learns.
_UNCACHED_START = 8000.0
_UNCACHED_WEIGHT = 0.02


class OwnLoad:
    """What a gateway itself has under way at one replica."""

    __slots__ = ("decoding", "in_flight", "progress_at", "prompt_tokens", "queue", "queued_tokens")

    def __init__(self) -> None:
        self.in_flight = 0
        self.decoding = 0
        self.prompt_tokens = 0
        # Uncached tokens, as expected, of each flight without a first token, oldest first.
        self.queue: dict[int, int] = {}
        self.queued_tokens = 0
        self.progress_at = 0.0

    def queued_now(self, now: float, seconds_per_token: float) -> float:
        """Less what the replica has computed of the oldest since its last first token."""
        if not self.queue:
            return 0.0
        head = self.queue[next(iter(self.queue))]
        return max(
            0.0, self.queued_tokens - min(head, (now - self.progress_at) / seconds_per_token)
        )


class OthersLoad(msgspec.Struct, frozen=True):
    """What the last snapshot of a replica showed beyond a gateway's own requests."""

    in_flight: int = 0
    waiting: int = 0
    decoding: int = 0
    kv_use: float = 0.0


class PeerGateway:
    """One of `gateways` that share nothing. `is_index_bounded`: it knows the size of the caches."""

    def __init__(
        self, rule: Rule, fleet: Fleet, *, gateways: int = 1, is_index_bounded: bool = True
    ) -> None:
        self._rule = rule
        self._fleet = fleet
        self._gateways = gateways
        self._index_size = fleet.constants.kv_tokens // BLOCK_TOKENS if is_index_bounded else None
        self._own: list[OwnLoad] = []
        self._others: list[OthersLoad] = []
        self._memory: list[PrefixMemory] = []
        self._views: list[ReplicaView] = []
        # Blocks that each flight was expected to hit where it went.
        self._expected: dict[int, int] = {}
        self._uncached_mean = _UNCACHED_START

    def choose(self, flight: Flight, now: float, excluded: Collection[int]) -> int:
        self._grow()
        eligible = [replica for replica in self._fleet.ready if replica not in excluded]
        for replica in eligible:
            self._look(replica, flight, now)
        chosen = self._rule.choose(flight, [self._views[replica] for replica in eligible])
        self._sent(flight, chosen, now)
        return chosen

    def first_token(self, flight: Flight, now: float) -> None:
        own = self._own[flight.replica]
        own.queued_tokens -= own.queue.pop(flight.number)
        own.decoding += 1
        own.progress_at = now

    def finished(self, flight: Flight, now: float) -> None:
        del now
        own = self._own[flight.replica]
        own.in_flight -= 1
        own.decoding -= 1
        own.prompt_tokens -= flight.request.prompt_tokens
        memory = self._memory[flight.replica]
        cached = flight.cached_tokens // BLOCK_TOKENS
        memory.learn(expected=self._expected.pop(flight.number), cached=cached)
        memory.add(flight.full_blocks)
        uncached = flight.request.prompt_tokens - flight.cached_tokens
        self._uncached_mean += _UNCACHED_WEIGHT * (uncached - self._uncached_mean)

    def failed(self, flight: Flight, now: float) -> None:
        """Its replica died."""
        del now
        own = self._own[flight.replica]
        own.in_flight -= 1
        own.prompt_tokens -= flight.request.prompt_tokens
        own.queued_tokens -= own.queue.pop(flight.number, 0)
        del self._expected[flight.number]
        if flight.first_at is not None:
            own.decoding -= 1

    def take_snapshot(self, replica: int, now: float) -> None:
        """The replica's own figures arrive; what is not ours in them is the others'."""
        del now
        self._grow()
        if self._gateways == 1:
            # It has sent everything itself, and knows better.
            return
        engine = self._fleet.engines[replica]
        own = self._own[replica]
        own_kv = own.prompt_tokens / (engine.cache.size * BLOCK_TOKENS)
        self._others[replica] = OthersLoad(
            in_flight=max(0, engine.in_flight - own.in_flight),
            waiting=max(0, engine.waiting - len(own.queue)),
            decoding=max(0, engine.decoding - own.decoding),
            kv_use=max(0.0, engine.cache.use - own_kv),
        )

    def _grow(self) -> None:
        while len(self._own) < len(self._fleet.engines):
            self._views.append(ReplicaView(len(self._own)))
            self._own.append(OwnLoad())
            self._others.append(OthersLoad())
            self._memory.append(PrefixMemory(self._index_size, 1 / self._gateways))

    def _look(self, replica: int, flight: Flight, now: float) -> None:
        view, own, others = self._views[replica], self._own[replica], self._others[replica]
        constants = self._fleet.constants
        view.in_flight = own.in_flight + others.in_flight
        view.waiting = len(own.queue) + others.waiting
        view.decoding = own.decoding + others.decoding
        unseen = max(0, others.in_flight - others.decoding) * self._uncached_mean
        view.queued_tokens = own.queued_now(now, constants.seconds_per_prompt_token) + unseen
        blocks = constants.kv_tokens // BLOCK_TOKENS
        view.kv_use = others.kv_use + own.prompt_tokens / (blocks * BLOCK_TOKENS)
        hits = self._memory[replica].count_hits(flight.reusable_blocks)
        view.cached_tokens = hits * BLOCK_TOKENS

    def _sent(self, flight: Flight, replica: int, now: float) -> None:
        own = self._own[replica]
        memory = self._memory[replica]
        hits = memory.count_hits(flight.reusable_blocks)
        uncached = max(1, flight.request.prompt_tokens - hits * BLOCK_TOKENS)
        if not own.queue:
            own.progress_at = now
        own.queue[flight.number] = uncached
        own.queued_tokens += uncached
        own.in_flight += 1
        own.prompt_tokens += flight.request.prompt_tokens
        self._expected[flight.number] = hits
        memory.add(flight.full_blocks)


class AllKnowingGateway:
    """Follows a peer's rule with what the engines themselves know, now."""

    def __init__(self, rule: Rule, fleet: Fleet) -> None:
        self._rule = rule
        self._fleet = fleet

    def choose(self, flight: Flight, now: float, excluded: Collection[int]) -> int:
        del now
        eligible = [replica for replica in self._fleet.ready if replica not in excluded]
        return self._rule.choose(flight, [self._look(replica, flight) for replica in eligible])

    def first_token(self, flight: Flight, now: float) -> None:
        """The engines know."""

    def finished(self, flight: Flight, now: float) -> None:
        """The engines know."""

    def failed(self, flight: Flight, now: float) -> None:
        """The engines know."""

    def _look(self, replica: int, flight: Flight) -> ReplicaView:
        engine = self._fleet.engines[replica]
        view = ReplicaView(replica)
        view.in_flight = engine.in_flight
        view.decoding = engine.decoding
        view.waiting = view.in_flight - view.decoding
        view.queued_tokens = engine.pending_tokens
        view.kv_use = engine.kv_demand
        view.cached_tokens = engine.cache.count_hits(flight.reusable_blocks) * BLOCK_TOKENS
        return view
