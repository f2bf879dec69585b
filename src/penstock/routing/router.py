"""The routing room's one object: what is known about replicas now, and the choice among them.

Pure: time is passed in, and nothing here waits. `pick` chooses; `sent`, `first_token` and
`finished` teach; `tell` and `hear` are what gateways exchange.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.errors import NoReplica
from penstock.records.host_load import HostTable
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
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

# How old may be what `tick` sorts out when a choice is made by it.
_TICK_AGE_SECONDS: Final = 0.04


class Roster(Protocol):
    """The port that `fleet` satisfies: replicas ready to serve a model, and any by its id."""

    def ready(self, model: ModelId) -> tuple[Replica, ...]: ...

    def find(self, replica: ReplicaId) -> Replica | None: ...


class LoadChanges(NamedTuple):
    """What this worker tells the others."""

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
        # Sessions that were not served where they were last, by reason.
        self.moves = {"load": 0, "drain": 0, "lost": 0}

    # The choice

    def pick(self, request: InferenceRequest, excluded: Collection[ReplicaId], now: float) -> Route:
        """The replica to try next. `excluded` has those that failed this very request."""
        key = request.placement.session_key
        session = self.knowledge.sessions.find(key) if key else None
        question = self._question(request, session, excluded, now)
        choice = self._chooser.choose(question)
        if choice is None:
            choice = self._choose_anyway(question, excluded)
        chain = question.chain
        route = Route(
            choice.known.replica,
            chain,
            key,
            choice.prompt_tokens,
            choice.cached,
            is_stream=request.prompt.is_stream,
            is_guess=choice.is_guess,
        )
        if session is not None and (chain.earlier or request.labels.session):
            self._compare(route, session, question)
        return route

    def explain(self, request: InferenceRequest, now: float) -> list[Weighed]:
        """The candidates for a request, cheapest first. Changes nothing."""
        session = self.knowledge.sessions.find(request.placement.session_key)
        return self._chooser.weigh(self._question(request, session, (), now))

    def free(self, model: ModelId) -> bool:
        """Whether some replica has a slot. Admission's `Capacity`; no replica is not busy."""
        members = self._fleet(model).members
        for known in members:
            self._look(known)
            # Flex work gives way, and inside the engine it comes last: it makes nobody wait here.
            if known.live_in_flight < known.slots_live:
                return True
        return not members

    # What its requests teach

    def sent(self, route: Route, now: float) -> None:
        """It goes out to `route.replica`; `finished` must follow, once."""
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
        """It has ended, with what it used where that is known."""
        known = self.knowledge.finished(route, usage, now)
        if route.session:
            if is_failed:
                self.knowledge.sessions.note_failure(route.session, known.id, now)
            elif usage is not None:
                self.knowledge.sessions.forget_failure(route.session)
        self._publish(known)

    def uncached_of(self, route: Route, tokens: int) -> int:
        """The part of a prompt's estimate that no earlier answer has shown to be cached there."""
        return self.knowledge.uncached_of(route, tokens)

    def in_flight(self) -> int:
        """Requests that this worker has under way, everywhere."""
        return self.knowledge.in_flight()

    # What gateways tell each other

    def tell(self, now: float) -> LoadChanges:
        """What is under way here, and the prompts that were sent since the last time."""
        return LoadChanges(self.gossip.loads(now), self.gossip.take_sent())

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None:
        """A peer's or a keeper's message; `sent` are its prompts that are news."""
        self.gossip.hear(signal, sent, now)

    def forget_peer(self, sender: int) -> None:
        """It fell silent or has ended: what it said no longer counts."""
        self.gossip.forget(sender)

    def note_peers(self, state: PeerState) -> None:
        """Whether the others are heard."""
        self._peers = state
        self.knowledge.are_peers_silent = state is PeerState.SILENT

    # Upkeep

    def tick(self, now: float) -> None:
        """Every few 10 ms: who is least loaded in large fleets, and the mean pace of all.

        It may be rare while nothing is chosen: a choice that finds all this too old has it sorted
        out first.
        """
        for fleet in self._fleets.values():
            self._tick(fleet, now)

    def was_asked(self) -> bool:
        """Whether anything was chosen since this was last called."""
        was_asked, self._was_asked = self._was_asked, False
        return was_asked

    def _tick(self, fleet: ModelFleet, now: float) -> None:
        for known in fleet.members:
            self._look(known)
        fleet.tick(now)

    def keep_only(self, replicas: Iterable[Replica]) -> None:
        """The roster has changed: forget what is not in it."""
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
        fleet = self._one(model, only) if only else self._fleet(model)
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
        """When nobody was left: among those that failed the session, then among the ejected."""
        choice = None
        if len(asked.barred) > len(excluded):
            choice = self._chooser.choose(asked.among(asked.fleet, asked.last, excluded))
        if choice is None and self.ejections and not asked.request.placement.only_replica:
            # All that is left is ejected: a try that may fail is better than a sure refusal.
            choice = self._chooser.choose(asked.among(self._all_ready(asked.model), None, excluded))
        if choice is None:
            raise self._nobody(asked.model)
        return choice

    def _nobody(self, model: ModelId) -> NoReplica:
        if self._roster.ready(model):
            return NoReplica(f"No replica of {model} can serve now.", retry_after_seconds=1)
        # It may be loading, or nobody has asked for it: whoever tries a name must be told which.
        return NoReplica(
            f"{model} is in the catalogue, but no replica of it is ready here. `default` is the"
            " first model that is run.",
            retry_after_seconds=1,
        )

    def _fleet(self, model: ModelId) -> ModelFleet:
        ready = self._roster.ready(model)
        fleet = self._fleets.get(model)
        version = self.ejections.version
        if fleet is None or fleet.ready is not ready or fleet.version != version:
            members = [self.knowledge.replica(r) for r in ready if r.id not in self.ejections]
            fleet = self._fleets[model] = ModelFleet(ready, members, version)
        return fleet

    def _one(self, model: ModelId, replica: str) -> ModelFleet:
        """A fleet of this replica, ejected or not, if it is ready."""
        ready = tuple(each for each in self._roster.ready(model) if each.id == replica)
        return ModelFleet(ready, [self.knowledge.replica(each) for each in ready], 0)

    def _all_ready(self, model: ModelId) -> ModelFleet:
        ready = self._roster.ready(model)
        return ModelFleet(ready, [self.knowledge.replica(replica) for replica in ready], 0)

    def _compare(self, route: Route, session: Session, question: Question) -> None:
        """With the session's last turn: has it moved, and has its prompt broken off?"""
        if route.replica_id != session.replica:
            route.moved = "load" if question.last is not None else self._why_lost(session.replica)
        change = first_change(session, route.chain)
        if change is not None:
            route.cache_break = route.chain.name_of(change)

    def _why_lost(self, replica: ReplicaId) -> str:
        """Why a session could not have stayed there."""
        last = self._roster.find(replica)
        return "drain" if last is not None and last.state is ReplicaState.DRAINING else "lost"

    def _look(self, known: KnownReplica) -> None:
        """At what the other workers of this host have there now."""
        if self._table is not None:
            known.note_host(self._table.others(known.id))

    def _publish(self, known: KnownReplica) -> None:
        """Let the other workers of this host see it at their next decision."""
        if self._table is not None:
            self._table.write(known.id, known.own_load())
