"""What routing has learned: the prefixes that replicas hold, their load and their speed."""

from collections.abc import Iterable
from typing import Final

from penstock.records.engine_load import EngineLoad
from penstock.records.replica import Replica, ReplicaId
from penstock.records.signal import EngineClaim
from penstock.records.usage import Usage
from penstock.routing.known_replica import NOTHING_UNHEARD, KnownReplica
from penstock.routing.peer_loads import Trials
from penstock.routing.prefix.index import PrefixIndex
from penstock.routing.prompt_size import PromptSizes
from penstock.routing.route import Route
from penstock.routing.sessions import Sessions
from penstock.routing.settings import RoutingSettings

# Replicas are numbered in sixteen bits; 0 means no replica.
_NUMBERS_MAX: Final = 2**16 - 1
_HOME_RATE: Final = 0.05
_MEAN_RATE: Final = 0.02
# The assumed mean of uncached tokens of a prompt, until answers show it.
_FIRST_UNCACHED: Final = 2000.0


class Knowledge:
    """Learns from every step of a request; decides nothing."""

    def __init__(self, settings: RoutingSettings) -> None:
        self._settings = settings
        self._replicas: dict[ReplicaId, KnownReplica] = {}
        self._free_numbers: list[int] = []
        self.index = PrefixIndex(settings.links_max, settings.holders_max, settings.block_tokens)
        self.sizes = PromptSizes(settings.bytes_per_token)
        self.sessions = Sessions(settings.sessions_max)
        self._trials = Trials(settings.claim_seconds / 2)
        # The learned share of a session's earlier turns that its home holds, used for guesses.
        self.home_share = 0.5
        self._claim_seconds = settings.claim_seconds
        self._mean_uncached = _FIRST_UNCACHED
        # While peers are silent, only the engines' figures show what the peers sent.
        self.are_peers_silent = False
        # Prompt tokens expected in a cache, and those found in it, for the metrics.
        self.cached_expected = 0
        self.cached_real = 0

    def replica(self, replica: Replica) -> KnownReplica:
        """Return what is known of a replica; create the record when the replica is new."""
        known = self._replicas.get(replica.id)
        if known is None:
            number = self._free_numbers.pop() if self._free_numbers else len(self._replicas) + 1
            assert number <= _NUMBERS_MAX, "a cell has at most 65,535 replicas"
            kv_tokens = self._settings.kv_tokens
            prefixes = self.index.prefixes_of(number, kv_tokens)
            known = KnownReplica(replica, prefixes, kv_tokens, self._settings.prefill_rate)
            self._replicas[replica.id] = known
        elif known.replica is not replica:
            known.renew(replica)
        return known

    def find(self, replica: ReplicaId) -> KnownReplica | None:
        return self._replicas.get(replica)

    def all(self) -> Iterable[KnownReplica]:
        return self._replicas.values()

    def in_flight(self) -> int:
        """Return how many requests this worker has in flight, at all replicas."""
        return sum(known.own.in_flight for known in self._replicas.values())

    def keep_only(self, replicas: Iterable[Replica]) -> None:
        """Forget replicas that have left the roster: ids are never reused.

        New replicas get a record at once: peers may send claims before this worker sends requests.
        """
        kept = {replica.id: replica for replica in replicas}
        for gone in [id_ for id_ in self._replicas if id_ not in kept]:
            known = self._replicas[gone]
            if known.own.in_flight:
                # Its last requests still run; it is forgotten at a later change of the roster.
                continue
            del self._replicas[gone]
            self.index.forget(known.prefixes.number)
            self._free_numbers.append(known.prefixes.number)
        for replica in kept.values():
            self.replica(replica)

    def review(self, known: KnownReplica, now: float) -> None:
        """Decide whether others' claims about a replica count, after each new claim."""
        known.review(now, self._claim_seconds, self._trials)

    def hear_engine(self, known: KnownReplica, claim: EngineClaim, now: float) -> None:
        """Store an engine's own figures. While peers are silent, only these show their requests."""
        unheard = NOTHING_UNHEARD
        if self.are_peers_silent:
            unheard = known.count_unheard(claim, self._mean_uncached)
        known.hear_engine(claim, now, unheard)

    def hear_answer(self, replica: ReplicaId, load: EngineLoad, now: float) -> None:
        """Apply the load that an engine reports with an answer, if no keeper reports on it."""
        known = self._replicas.get(replica)
        if known is not None and not known.keeper:
            known.note_load(load)
            self.review(known, now)

    def sent(self, route: Route, now: float) -> KnownReplica:
        """Record that the request goes out, and that the replica will hold its prompt."""
        known = self._replicas.get(route.replica_id)
        if known is None or known.replica is not route.replica:
            known = self.replica(route.replica)
        self._trials.note_request()
        known.note_sent(route, now)
        chain = route.chain
        rate = tokens_per_byte(route)
        route.new_from = self.index.add(known.prefixes, chain.links, chain.sizes, rate)
        return known

    def first_token(self, route: Route, now: float) -> KnownReplica | None:
        known = self._replicas.get(route.replica_id)
        if known is not None:
            known.note_first(route, now, self._claim_seconds)
        return known

    def finished(self, route: Route, usage: Usage | None, now: float) -> KnownReplica:
        known = self._replicas[route.replica_id]
        if usage is not None and not route.is_stream:
            known.note_first(route, now, self._claim_seconds)
        known.own.remove(route, now)
        if usage is not None and usage.prompt_tokens:
            self._learn(route, known, usage)
        return known

    def uncached_of(self, route: Route, tokens: int) -> int:
        """Return the part of a prompt's estimate that the route's replica is not known to cache.

        Only links that an earlier answer has counted are cached for certain. A prompt whose request
        ended before its first token is not: its prefill may never have run.
        """
        known = self._replicas.get(route.replica_id)
        cached = 0
        links = route.chain.links
        for at in range(len(links) - 1, -1, -1):
            counted = None if known is None else self.index.counted(known.prefixes, links[at])
            if counted is not None:
                cached = min(counted, route.expected_cached, route.prompt_tokens)
                break
        return tokens * (route.prompt_tokens - cached) // max(1, route.prompt_tokens)

    def _learn(self, route: Route, known: KnownReplica, usage: Usage) -> None:
        prompt_tokens, cached = usage.prompt_tokens, usage.cached_tokens
        self._teach_size(route, known, prompt_tokens)
        if cached is not None:
            self._mean_uncached += _MEAN_RATE * (prompt_tokens - cached - self._mean_uncached)
            self._judge(route, known, cached)

    def _teach_size(self, route: Route, known: KnownReplica, prompt_tokens: int) -> None:
        chain, new_from = route.chain, route.new_from
        sizes = chain.sizes
        size = 0
        for at in range(new_from, len(sizes)):
            size += sizes[at]
        if size:
            tokens = self.index.teach(known.prefixes, chain.links, new_from, prompt_tokens)
            self.sizes.teach(known.model, tokens, size)
        elif chain.links and self.index.counted(known.prefixes, chain.links[-1]) is None:
            # An earlier request sent this prompt and ended without a count: this is the first.
            self.index.correct(known.prefixes, chain.links[-1], prompt_tokens)

    def _judge(self, route: Route, known: KnownReplica, cached: int) -> None:
        self.cached_expected += route.expected_cached
        self.cached_real += cached
        if not route.is_guess:
            self.index.judge(known.prefixes, route.expected_cached, cached)
        elif route.expected_cached:
            share = min(1.0, cached * self.home_share / route.expected_cached)
            self.home_share += _HOME_RATE * (share - self.home_share)


def tokens_per_byte(route: Route) -> float:
    """Return the rate that estimates the tokens of links until an engine has counted them."""
    return route.prompt_tokens / (route.chain.size or 1)
