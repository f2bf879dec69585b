"""The entry point of routing: keeps what is known about replicas, and chooses among them.

Pure: time is passed in, and nothing here waits. `pick` chooses; `sent`, `first_token` and
`finished` record progress; `tell` and `hear` exchange loads and prompts with other gateways.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.errors import NoReplica
from penstock.records.host_load import HostTable
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaStart, ReplicaState
from penstock.records.request import InferenceRequest
from penstock.records.signal import LoadClaim, PeerState, SentPrompt, Signal
from penstock.records.usage import Usage
from penstock.routing.choice import Chooser, Question, ReplicaChoice, Weighed
from penstock.routing.ejections import Ejections
from penstock.routing.gossip import Gossip
from penstock.routing.knowledge import Knowledge
from penstock.routing.known_replica import KnownReplica
from penstock.routing.model_fleet import ModelFleet
from penstock.routing.route import Route
from penstock.routing.sessions import Session, first_change
from penstock.routing.settings import RoutingSettings
from penstock.routing.start_wait import still_starting

# A choice repeats `tick` first when the last one is older than this.
_TICK_AGE_SECONDS: Final = 0.04
# Nobody knows when a model that nothing runs gets a replica; a killed one is started in seconds.
_NOTHING_RUNS_SECONDS: Final = 5


class Roster(Protocol):
    """The port that `fleet` implements: which replicas are ready or starting; finds any by id."""

    def ready(self, model: ModelId) -> tuple[Replica, ...]: ...

    def find(self, replica: ReplicaId) -> Replica | None: ...

    def starting(self, model: ModelId) -> ReplicaStart | None: ...

    def waking(self, model: ModelId) -> ReplicaStart | None: ...


class LoadChanges(NamedTuple):
    """The load and the new prompts that this worker publishes."""

    loads: list[LoadClaim]
    sent: list[SentPrompt]


class Router:
    """Picks a replica, and learns from every step of every request."""

    def __init__(
        self,
        roster: Roster,
        settings: RoutingSettings,
        table: HostTable | None = None,
        host: str = "",
    ) -> None:
        self._roster = roster
        self._table = table
        # By pool: a model, or a model and an account that has replicas of its own.
        self._fleets: dict[ModelId, ModelFleet] = {}
        self._peers = PeerState.ALONE
        self._failed_seconds = settings.failed_seconds
        self._was_asked = False
        self.knowledge = Knowledge(settings)
        self._chooser = Chooser(self.knowledge, settings, table)
        self.gossip = Gossip(self.knowledge, host)
        self.ejections = Ejections(
            first_wait_seconds=settings.eject_seconds, interval_seconds=settings.probe_seconds
        )
        # Counts of sessions that moved from their last replica, by reason.
        self.moves = {"load": 0, "drain": 0, "lost": 0}

    # The choice

    def pick(self, request: InferenceRequest, excluded: Collection[ReplicaId], now: float) -> Route:
        """Return the route to try next. `excluded` has replicas that failed this request."""
        key = request.placement.session_key
        session = self.knowledge.sessions.find(key) if key else None
        question = self._question(request, session, excluded, now)
        choice = self._chooser.choose(question)
        if choice is None:
            choice = self._choose_anyway(question, excluded)
        chain = question.chain
        known = choice.known
        route = Route(
            known.replica,
            chain,
            key,
            choice.prompt_tokens,
            # The engine caches whole blocks: a part of one is never found there.
            choice.cached - choice.cached % known.block_tokens,
            is_stream=request.prompt.is_stream,
            is_guess=choice.is_guess,
        )
        if session is not None and (chain.earlier or request.labels.session):
            self._compare(route, session, question)
        return route

    def explain(self, request: InferenceRequest, now: float) -> list[Weighed]:
        """Return the candidates for a request, cheapest first, without recording a choice."""
        session = self.knowledge.sessions.find(request.placement.session_key)
        return self._chooser.weigh(self._question(request, session, (), now))

    def pool(self, request: InferenceRequest) -> ModelId:
        """Return the name of the replicas that may serve a request: those of its model that all
        accounts share, or these and the ones that are reserved for its account.
        """
        model, account = request.model.id, request.account
        if account not in self._fleet(model).dedicated:
            return model
        # Names of models have no spaces.
        return ModelId(f"{model} {account}")

    def free(self, pool: ModelId) -> bool:
        """Return whether a request may try: a replica has a free slot, or waiting helps nothing.

        Admission's `Capacity`.
        """
        members = self._fleet(pool).members
        for known in members:
            self._look(known)
            # Flex work takes no live slot: it yields to live requests, and engines run it last.
            if known.live_in_flight < known.slots_live:
                return True
        return not members and self.waking(pool) is None

    def waking(self, pool: ModelId) -> NoReplica | None:
        """Return the refusal of those who cannot wait for a model at zero that wakes for requests.

        None while it has replicas, even ejected ones, and if it does not wake. `Capacity`'s too.
        """
        fleet = self._fleet(pool)
        if any(not each.accounts or fleet.account in each.accounts for each in fleet.ready):
            return None
        start = self._roster.waking(fleet.model)
        return None if start is None else still_starting(fleet.model, start)

    # Progress of requests

    def sent(self, route: Route, now: float) -> None:
        """Record that the request goes to `route.replica`; call `finished` once afterwards."""
        knowledge = self.knowledge
        known = knowledge.sent(route, now)
        if route.session:
            chain = route.chain
            knowledge.sessions.note(route.session, known.id, chain.links, 0, chain.opening)
        if route.moved:
            self.moves[route.moved] += 1
        if self._peers is not PeerState.ALONE:
            self.gossip.note_sent(route, known)
        self._publish(known)

    def first_token(self, route: Route, now: float) -> None:
        known = self.knowledge.first_token(route, now)
        if known is not None:
            self._publish(known)

    def finished(
        self, route: Route, usage: Usage | None, now: float, *, is_failed: bool = False
    ) -> None:
        """Record that the request has ended, with its usage where that is known."""
        known = self.knowledge.finished(route, usage, now)
        if route.session:
            if is_failed:
                self.knowledge.sessions.note_failure(route.session, known.id, now)
            elif usage is not None:
                self.knowledge.sessions.forget_failure(route.session)
        self._publish(known)

    def uncached_of(self, route: Route, tokens: int) -> int:
        """Return the part of a prompt's estimate that no earlier answer showed as cached there."""
        return self.knowledge.uncached_of(route, tokens)

    def in_flight(self) -> int:
        """Return how many requests this worker has in flight, at all replicas."""
        return self.knowledge.in_flight()

    # Messages between gateways

    def tell(self, now: float) -> LoadChanges:
        """Return this worker's load, and the prompts it sent since the last call."""
        return LoadChanges(self.gossip.loads(now), self.gossip.take_sent())

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None:
        """Apply a peer's or a keeper's message; `sent` has those of its prompts that are new."""
        self.gossip.hear(signal, sent, now)

    def forget_peer(self, sender: int) -> None:
        """Drop the claims of a peer that fell silent or has ended."""
        self.gossip.forget(sender)

    def note_peers(self, state: PeerState) -> None:
        """Set whether messages from the other workers arrive."""
        self._peers = state
        self.knowledge.are_peers_silent = state is PeerState.SILENT

    # Upkeep

    def tick(self, now: float) -> None:
        """Update each fleet's least loaded replicas and mean pace; call it every few 10 ms.

        Calls may be rarer while no request is routed: a choice repeats an outdated tick first.
        """
        for fleet in self._fleets.values():
            self._tick(fleet, now)

    def was_asked(self) -> bool:
        """Return whether a choice was asked for since the last call."""
        was_asked, self._was_asked = self._was_asked, False
        return was_asked

    def _tick(self, fleet: ModelFleet, now: float) -> None:
        for known in fleet.members:
            self._look(known)
        fleet.tick(now)

    def keep_only(self, replicas: Iterable[Replica]) -> None:
        """Forget the replicas that are no longer in the roster."""
        known = tuple(replicas)
        self.ejections.forget_all_but(frozenset(replica.id for replica in known))
        self.knowledge.keep_only(known)
        self._fleets.clear()

    def _question(
        self,
        request: InferenceRequest,
        session: Session | None,
        excluded: Collection[ReplicaId],
        now: float,
    ) -> Question:
        model, only = request.model.id, request.placement.only_replica
        fleet = self._one(model, only) if only else self._fleet(self.pool(request))
        self._was_asked = True
        if now - fleet.ticked_at > _TICK_AGE_SECONDS:
            self._tick(fleet, now)
        barred = excluded
        last = None
        if session is not None:
            if session.failed is not None and now - session.failed_at < self._failed_seconds:
                barred = {*excluded, session.failed}
            if not barred or session.replica not in barred:
                last = fleet.by_id.get(session.replica)
        return Question(
            request, model, fleet=fleet, last=last, barred=barred, peers=self._peers, now=now
        )

    def _choose_anyway(self, asked: Question, excluded: Collection[ReplicaId]) -> ReplicaChoice:
        """Choose when all are barred: allow the replica that failed the session, then ejected."""
        choice = None
        if len(asked.barred) > len(excluded):
            choice = self._chooser.choose(asked.among(asked.fleet, asked.last, excluded))
        if choice is None and self.ejections and not asked.request.placement.only_replica:
            # Only ejected replicas are left: a try that may fail is better than a sure refusal.
            choice = self._chooser.choose(asked.among(self._all_ready(asked), None, excluded))
        if choice is None:
            raise self._nobody(asked.model)
        return choice

    def _nobody(self, model: ModelId) -> NoReplica:
        if self._roster.ready(model):
            return NoReplica(f"No replica of {model} can serve now.", retry_after_seconds=1)
        start = self._roster.starting(model)
        if start is not None:
            return still_starting(model, start)
        # The name is valid: the message must say that only a ready replica is missing.
        return NoReplica(
            f"{model} is in the catalogue, but nothing runs it here. `default` is the first model"
            " that is run.",
            retry_after_seconds=_NOTHING_RUNS_SECONDS,
        )

    def _fleet(self, pool: ModelId) -> ModelFleet:
        """Return the replicas of a pool."""
        fleet = self._fleets.get(pool)
        model, account = split_pool(pool) if fleet is None else (fleet.model, fleet.account)
        ready = self._roster.ready(model)
        version = self.ejections.version
        if fleet is None or fleet.ready is not ready or fleet.version != version:
            members = [
                self.knowledge.replica(each)
                for each in ready
                if each.id not in self.ejections and (not each.accounts or account in each.accounts)
            ]
            fleet = self._fleets[pool] = ModelFleet(ready, members, version, model, account)
        return fleet

    def _one(self, model: ModelId, replica: str) -> ModelFleet:
        """Return a fleet of this replica alone, ejected or not, if it is ready."""
        ready = tuple(each for each in self._roster.ready(model) if each.id == replica)
        return ModelFleet(ready, [self.knowledge.replica(each) for each in ready], 0)

    def _all_ready(self, asked: Question) -> ModelFleet:
        """Return the ready replicas that may serve a request, ejected ones too."""
        account = asked.request.account
        ready = tuple(
            each
            for each in self._roster.ready(asked.model)
            if not each.accounts or account in each.accounts
        )
        return ModelFleet(ready, [self.knowledge.replica(replica) for replica in ready], 0)

    def _compare(self, route: Route, session: Session, question: Question) -> None:
        """Note on the route whether the session moved, and which part of its prompt changed."""
        if route.replica_id != session.replica:
            route.moved = "load" if question.last is not None else self._why_lost(session.replica)
        change = first_change(session, route.chain)
        if change is not None:
            route.cache_break = route.chain.name_of(change)

    def _why_lost(self, replica: ReplicaId) -> str:
        """Return why a session could not stay at this replica."""
        last = self._roster.find(replica)
        return "drain" if last is not None and last.state is ReplicaState.DRAINING else "lost"

    def _look(self, known: KnownReplica) -> None:
        """Read the current load of this host's other workers at this replica."""
        if self._table is not None:
            known.note_host(self._table.others(known.id))

    def _publish(self, known: KnownReplica) -> None:
        """Write this worker's load for the other workers of this host to read at once."""
        if self._table is not None:
            self._table.write(known.id, known.own_load())


def split_pool(pool: ModelId) -> tuple[ModelId, str]:
    """Return a pool's model, and the account that has replicas of its own there, else ""."""
    model, _, account = pool.partition(" ")
    return ModelId(model), account
