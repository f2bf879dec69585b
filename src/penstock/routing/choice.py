"""Chooses one replica for one request, by the cost of each candidate."""

from collections.abc import Collection
from typing import Final, NamedTuple

from penstock.records.host_load import HostTable
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId
from penstock.records.request import InferenceRequest
from penstock.records.signal import PeerState
from penstock.routing.knowledge import Knowledge
from penstock.routing.known_replica import KnownReplica
from penstock.routing.model_fleet import ModelFleet
from penstock.routing.pick import Terms, Weighing, choose, costs, terms
from penstock.routing.prefix.index import PrefixMatch
from penstock.routing.settings import RoutingSettings

# No guess is made where the index already shows this share of the earlier turns at the home.
_KNOWN_SHARE: Final = 0.9


class ReplicaChoice:
    """The chosen replica, and the cached tokens expected there."""

    def __init__(
        self, known: KnownReplica, prompt_tokens: int, cached: int, *, is_guess: bool = False
    ) -> None:
        self.known = known
        self.prompt_tokens = prompt_tokens
        self.cached = cached
        # Whether `cached` is a guess: the part of earlier turns that the session's home may hold.
        self.is_guess = is_guess


class Weighed(NamedTuple):
    """A candidate replica, and the cost of sending the request there."""

    known: KnownReplica
    cached: int
    terms: Terms


class Question:
    """A request, and the replicas it may be sent to."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        request: InferenceRequest,
        model: ModelId,
        *,
        fleet: ModelFleet,
        last: KnownReplica | None,
        barred: Collection[ReplicaId],
        peers: PeerState,
        now: float,
    ) -> None:
        self.request = request
        self.chain = request.prompt.chain
        self.session_key = request.placement.session_key
        self.model = model
        self.fleet = fleet
        # The replica that last served the session, if it may take this request.
        self.last = last
        # Replicas that must not get this request.
        self.barred = barred
        self.peers = peers
        self.now = now

    def among(
        self, fleet: ModelFleet, last: KnownReplica | None, barred: Collection[ReplicaId]
    ) -> "Question":
        """Return the same question about other replicas."""
        return Question(
            self.request,
            self.model,
            fleet=fleet,
            last=last,
            barred=barred,
            peers=self.peers,
            now=self.now,
        )


class Chooser:
    """Chooses by cost. Learns nothing; only refreshes the loads of this host's other workers."""

    def __init__(
        self, knowledge: Knowledge, settings: RoutingSettings, table: HostTable | None = None
    ) -> None:
        self._knowledge = knowledge
        self._table = table
        # Copied out of the settings: compiled code reads a field of its own class directly.
        self._harm_weight = settings.harm_weight
        self._near_margin = settings.near_margin
        self._near_margin_silent = settings.near_margin_silent
        self._block_tokens = settings.block_tokens
        self._weighed_max = settings.weighed_replicas_max

    def choose(self, question: Question) -> ReplicaChoice | None:
        """Return the best replica, or None when all are barred."""
        chain, last = question.chain, question.last
        match = self._knowledge.index.look(chain.links, chain.sizes)
        tokens = self._prompt_tokens(question, match)
        by_replica = match.by_replica
        if last is not None and self._stays(question.request, last, tokens):
            return ReplicaChoice(
                last, tokens, min(by_replica.get(last.prefixes.number, 0), tokens - 1)
            )
        home, guess = self._home(question, match, tokens)
        candidates = self._candidates(question, match, home)
        if not candidates:
            return None
        cached = [by_replica.get(known.prefixes.number, 0) for known in candidates]
        guessed = candidates.index(home) if guess and home in candidates else -1
        if guessed >= 0 and guess > cached[guessed]:
            cached[guessed] = guess
        else:
            guessed = -1
        at = 0
        if len(candidates) > 1:
            weights = costs(self._weighing(question, tokens), candidates, cached)
            at = self._pick(question, candidates, weights, home)
        return ReplicaChoice(
            candidates[at], tokens, min(cached[at], tokens - 1), is_guess=at == guessed
        )

    def weigh(self, question: Question) -> list[Weighed]:
        """Return every candidate with the parts of its cost, cheapest first: explains `choose`."""
        chain = question.chain
        match = self._knowledge.index.look(chain.links, chain.sizes)
        tokens = self._prompt_tokens(question, match)
        home, guess = self._home(question, match, tokens)
        weighing = self._weighing(question, tokens)
        rows = []
        for known in self._candidates(question, match, home):
            cached = min(match.by_replica.get(known.prefixes.number, 0), tokens - 1)
            if known is home:
                cached = max(cached, guess)
            rows.append(Weighed(known, cached, terms(weighing, known, cached)))
        return sorted(rows, key=lambda row: sum(row.terms))

    def _weighing(self, question: Question, tokens: int) -> Weighing:
        return Weighing(tokens, question.fleet.pace, self._harm_weight, question.now)

    def _pick(
        self,
        question: Question,
        candidates: list[KnownReplica],
        weights: list[float],
        home: KnownReplica | None,
    ) -> int:
        is_silent = question.peers is PeerState.SILENT
        margin = self._near_margin_silent if is_silent else self._near_margin
        limit = min(weights) * (1.0 + margin)
        last = question.last
        if last is not None and not is_silent:
            # A shortcut: `choose` returns the same, but needs its candidates sorted by cost.
            for at in range(len(candidates)):
                if candidates[at] is last and weights[at] <= limit:
                    return at
        near = [at for at, cost in enumerate(weights) if cost <= limit]
        if len(near) == 1:
            return near[0]
        near.sort(key=weights.__getitem__)
        tied = [candidates[at] for at in near]
        chosen = choose(
            tied, last=last, home=home, session=question.session_key, peers=question.peers
        )
        return near[tied.index(chosen)]

    def _stays(self, request: InferenceRequest, last: KnownReplica, tokens: int) -> bool:
        """Return whether the request stays at its session's last replica, whatever the cost."""
        if request.placement.is_affinity_strict:
            return True
        if tokens >= self._block_tokens or not request.labels.session:
            return False
        return last.live_in_flight < last.slots_live

    def _prompt_tokens(self, question: Question, match: PrefixMatch) -> int:
        sizes = question.chain.sizes
        if not sizes:
            return max(1, question.request.terms.prompt_tokens_estimate)
        rate = self._knowledge.sizes.tokens_per_byte(question.model)
        unknown = sum(sizes[match.depth + 1 :])
        return max(1, match.tokens + int(unknown * rate))

    def _home(
        self, question: Question, match: PrefixMatch, tokens: int
    ) -> tuple[KnownReplica | None, int]:
        """Return the session's home, and a guess of its cached tokens; 0 where none is needed."""
        if question.peers is not PeerState.SILENT or not question.session_key:
            # Peers that are heard report every prompt they send: the index needs no guess.
            return None, 0
        chain = question.chain
        home = question.fleet.home(question.session_key)
        if home is None or not chain.earlier or match.depth + 1 >= chain.earlier:
            return home, 0
        before = tokens * sum(chain.sizes[: chain.earlier]) // (chain.size or 1)
        if match.by_replica.get(home.prefixes.number, 0) >= _KNOWN_SHARE * before:
            return home, 0
        return home, min(tokens - 1, int(self._knowledge.home_share * before))

    def _candidates(
        self, question: Question, match: PrefixMatch, home: KnownReplica | None
    ) -> list[KnownReplica]:
        """Return the replicas to weigh: all, or the holders, the least loaded, home and last."""
        fleet, barred = question.fleet, question.barred
        members = fleet.members
        if len(members) > self._weighed_max:
            by_number = fleet.by_number
            some = [by_number[number] for number in match.by_replica if number in by_number]
            for known in (*fleet.least_loaded, home, question.last):
                if known is not None and known not in some:
                    some.append(known)
            found = self._open(some, barred)
            if found:
                return found
        return self._open(members, barred) or [known for known in members if known.id not in barred]

    def _open(
        self, members: list[KnownReplica], barred: Collection[ReplicaId]
    ) -> list[KnownReplica]:
        """Return members with a free slot, after reading the loads of this host's other workers."""
        table = self._table
        is_any_barred = bool(barred)
        found = []
        for known in members:
            if is_any_barred and known.id in barred:
                continue
            if table is not None:
                known.note_host(table.others(known.id))
            if known.live_in_flight < known.slots_live:
                found.append(known)
        return found
