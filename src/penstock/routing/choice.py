"""The choice of one replica for one request, with everything it was weighed by."""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from penstock.records.host_load import HostLoad
from penstock.records.replica import ReplicaId
from penstock.records.request import InferenceRequest
from penstock.records.signal import PeerState
from penstock.routing.knowledge import Knowledge
from penstock.routing.known_replica import KnownReplica
from penstock.routing.model_fleet import ModelFleet
from penstock.routing.pick import Terms, Weighing, choose, costs, terms
from penstock.routing.prefix_index import Held
from penstock.routing.settings import Settings

# An earlier turn counts as known at the session's home when so much of it is.
_KNOWN_SHARE = 0.9


class HostTable(Protocol):
    """The port that `signals` satisfies: what the workers of one host have under way."""

    def write(self, replica: ReplicaId, load: HostLoad) -> None: ...

    def others(self, replica: ReplicaId) -> HostLoad | None: ...


class Choice(NamedTuple):
    """Where to, and what is expected of it."""

    known: KnownReplica
    prompt_tokens: int
    cached: int
    # Whether `cached` is only what the session's home may hold.
    is_guess: bool = False


class Weighed(NamedTuple):
    """A replica that could take the request, and what that would cost."""

    known: KnownReplica
    cached: int
    terms: Terms


class Question(NamedTuple):
    """A request, and the replicas it may be sent to."""

    request: InferenceRequest
    fleet: ModelFleet
    # Where its session was last, if that may take it.
    last: KnownReplica | None
    # Replicas that it is not to be sent to.
    barred: Collection[ReplicaId]
    peers: PeerState
    now: float


class Chooser:
    """Reads what is known, and changes none of it."""

    def __init__(
        self, knowledge: Knowledge, settings: Settings, table: HostTable | None = None
    ) -> None:
        self._knowledge = knowledge
        self._settings = settings
        self._table = table

    def choose(self, question: Question) -> Choice | None:
        """The best replica, or None when all are barred."""
        request, last = question.request, question.last
        held = self._knowledge.index.look(request.chain.links, request.chain.sizes)
        tokens = self._prompt_tokens(request, held)
        if last is not None and self._stays(request, last, tokens):
            return Choice(last, tokens, min(held.by_replica.get(last.shelf.number, 0), tokens - 1))
        home, guess = self._home(question, held, tokens)
        candidates = self._candidates(question, held, home)
        if not candidates:
            return None
        weighing = self._weighing(question, tokens)
        by_replica = held.by_replica
        cached = [by_replica.get(known.shelf.number, 0) for known in candidates]
        guessed = candidates.index(home) if guess and home in candidates else -1
        if guessed >= 0 and guess > cached[guessed]:
            cached[guessed] = guess
        else:
            guessed = -1
        at = self._pick(question, candidates, costs(weighing, candidates, cached), home)
        return Choice(candidates[at], tokens, min(cached[at], tokens - 1), at == guessed)

    def weigh(self, question: Question) -> list[Weighed]:
        """Every candidate with the parts of its cost, cheapest first: why `choose` chose."""
        chain = question.request.chain
        held = self._knowledge.index.look(chain.links, chain.sizes)
        tokens = self._prompt_tokens(question.request, held)
        home, guess = self._home(question, held, tokens)
        weighing = self._weighing(question, tokens)
        rows = []
        for known in self._candidates(question, held, home):
            cached = min(held.by_replica.get(known.shelf.number, 0), tokens - 1)
            if known is home:
                cached = max(cached, guess)
            rows.append(Weighed(known, cached, terms(weighing, known, cached)))
        return sorted(rows, key=lambda row: sum(row.terms))

    def _weighing(self, question: Question, tokens: int) -> Weighing:
        harm_weight = self._settings.harm_weight
        return Weighing(tokens, question.fleet.pace, harm_weight, question.now)

    def _pick(
        self,
        question: Question,
        candidates: list[KnownReplica],
        weights: list[float],
        home: KnownReplica | None,
    ) -> int:
        least = min(weights)
        settings = self._settings
        is_silent = question.peers is PeerState.SILENT
        margin = settings.near_margin_silent if is_silent else settings.near_margin
        limit = least * (1.0 + margin)
        near = [at for at, cost in enumerate(weights) if cost <= limit]
        if len(near) == 1:
            return near[0]
        near.sort(key=weights.__getitem__)
        tied = [candidates[at] for at in near]
        chosen = choose(
            tied,
            last=question.last,
            home=home,
            session=question.request.session_key,
            peers=question.peers,
        )
        return near[tied.index(chosen)]

    def _stays(self, request: InferenceRequest, last: KnownReplica, tokens: int) -> bool:
        """Whether its session keeps the request where it is, whatever that costs."""
        if request.is_affinity_strict:
            return True
        is_short = tokens < self._settings.block_tokens and bool(request.session)
        return is_short and last.live_in_flight < last.replica.slots_live

    def _prompt_tokens(self, request: InferenceRequest, held: Held) -> int:
        sizes = request.chain.sizes
        if not sizes:
            return max(1, request.prompt_tokens_estimate)
        rate = self._knowledge.sizes.tokens_per_byte(request.model.id)
        return max(1, held.tokens + int(sum(sizes[held.depth + 1 :]) * rate))

    def _home(self, question: Question, held: Held, tokens: int) -> tuple[KnownReplica | None, int]:
        """The session's home, and how much of its earlier turns that may hold unknown to us."""
        request = question.request
        chain = request.chain
        if question.peers is not PeerState.SILENT or not request.session_key:
            # Who is heard has told us what it sent: what is not known is not there.
            return None, 0
        home = question.fleet.home(request.session_key)
        if home is None or not chain.earlier or held.depth + 1 >= chain.earlier:
            return home, 0
        before = tokens * sum(chain.sizes[: chain.earlier]) // (sum(chain.sizes) or 1)
        if held.by_replica.get(home.shelf.number, 0) >= _KNOWN_SHARE * before:
            return home, 0
        return home, min(tokens - 1, int(self._knowledge.home_share * before))

    def _candidates(
        self, question: Question, held: Held, home: KnownReplica | None
    ) -> list[KnownReplica]:
        """Those worth weighing: of a large fleet the holders, the least loaded, home and last."""
        fleet = question.fleet
        members = fleet.members
        if len(members) > self._settings.weighed_replicas_max:
            by_number = fleet.by_number
            some = [by_number[number] for number in held.by_replica if number in by_number]
            for known in (*fleet.least_loaded, home, question.last):
                if known is not None and known not in some:
                    some.append(known)
            found = self._open(some, question.barred)
            if found:
                return found
        return self._open(members, question.barred) or [
            known for known in members if known.replica.id not in question.barred
        ]

    def _open(
        self, members: Iterable[KnownReplica], barred: Collection[ReplicaId]
    ) -> list[KnownReplica]:
        """Those that have a slot, with what other workers of this host have there as of now."""
        table = self._table
        found = []
        for known in members:
            replica = known.replica
            if barred and replica.id in barred:
                continue
            if table is not None:
                known.note_host(table.others(replica.id))
            if known.live_in_flight < replica.slots_live:
                found.append(known)
        return found
