"""A simulated gateway that runs `penstock.routing` itself, through its public face.

It sees what a real one sees: prompts as chains of links with their bytes, first tokens, usage, the
roster, a keeper's word on the size of the caches, and what other gateways tell.
"""

from collections.abc import Collection, Sequence

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.fleet import Fleet
from fleet_simulator.flight import Flight
from fleet_simulator.peer_rules.load_rules import mix
from penstock.records.account import AccountId, KeyId
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.prompt_chain import PromptChain
from penstock.records.replica import Replica, ReplicaId, ReplicaStart, ReplicaState
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.signal import EngineClaim, PeerState, Signal, SignalBatch
from penstock.records.usage import Usage
from penstock.routing import Route, Router, RoutingSettings
from penstock.testing.sample_request import sample_request

MODEL = Model(
    id=ModelId("simulated"), family=Family.OPENAI, context_tokens=10**6, recipe=Recipe(command=())
)
# What a real gateway finds out from the answers: it is told 4 bytes a token, and these are not.
_BYTES_PER_TOKEN = 3
# The gate that would hold requests back is another room's; here all of them go to the engines.
_SLOTS_LIVE = 65536
_TICK_SECONDS = 0.01
_KEEPER = 2**32


class SimulatedRoster:
    """The roster of a simulated fleet, as gateways see it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._seen: tuple[list[int], list[int]] = ([], [])
        self._ready: tuple[Replica, ...] = ()
        self._by_id: dict[ReplicaId, Replica] = {}
        self._refresh()

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        del model
        self._refresh()
        return self._ready

    def find(self, replica: ReplicaId) -> Replica | None:
        self._refresh()
        return self._by_id.get(replica)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        del model
        return None

    def waking(self, model: ModelId) -> ReplicaStart | None:
        del model
        return None

    def all(self) -> tuple[Replica, ...]:
        self._refresh()
        return tuple(self._by_id.values())

    def _refresh(self) -> None:
        fleet = self._fleet
        if self._seen == (fleet.ready, fleet.draining):
            return
        self._seen = (fleet.ready, fleet.draining)
        self._ready = tuple(_replica(number, ReplicaState.READY) for number in fleet.ready)
        draining = [_replica(number, ReplicaState.DRAINING) for number in fleet.draining]
        self._by_id = {replica.id: replica for replica in (*self._ready, *draining)}


class PenstockGateway:
    """One gateway. `peers` is how it stands with the other ones."""

    def __init__(
        self,
        number: int,
        fleet: Fleet,
        roster: SimulatedRoster,
        settings: RoutingSettings,
        *,
        is_strict: bool = False,
    ) -> None:
        self._number = number
        self._host = f"gateway-{number}"
        self._roster = roster
        self._fleet = fleet
        self._is_strict = is_strict
        self._routes: dict[int, Route] = {}
        self._told = 0
        self._heard = 0
        self._ticked_at = 0.0
        self.router = Router(roster, settings, host=self._host)

    def note_peers(self, state: PeerState) -> None:
        self.router.note_peers(state)

    def meet(self, now: float) -> None:
        """The roster is new to it, and the keepers say how their engines are."""
        replicas = self._roster.all()
        self.router.keep_only(replicas)
        self.router.free(MODEL.id)
        for replica in replicas:
            self.hear_keeper(replica_number(replica.id), now)

    def hear_keeper(self, replica: int, now: float) -> None:
        """What an engine's own figures say."""
        engine = self._fleet.engines[replica]
        claim = EngineClaim(
            replica_id(replica),
            is_healthy=True,
            running=engine.in_flight - engine.waiting,
            waiting=engine.waiting,
            kv_use=engine.cache.use,
            kv_tokens=engine.cache.size * BLOCK_TOKENS,
            prefill_rate=engine.prefill_rate,
            own_requests=engine.flex_in_flight,
            own_tokens=engine.flex_prompt_tokens,
        )
        self._heard += 1
        signal = Signal(_KEEPER + replica, self._heard, f"keeper-{replica}", engines=[claim])
        self.router.hear(signal, (), now)

    def choose(self, flight: Flight, now: float, excluded: Collection[int]) -> int:
        if now - self._ticked_at >= _TICK_SECONDS:
            self.router.tick(now)
            self._ticked_at = now
        request = request_of(flight, is_strict=self._is_strict)
        route = self.router.pick(request, [replica_id(number) for number in excluded], now)
        self.router.sent(route, now)
        self._routes[flight.number] = route
        return replica_number(route.replica.id)

    def first_token(self, flight: Flight, now: float) -> None:
        self.router.first_token(self._routes[flight.number], now)

    def finished(self, flight: Flight, now: float) -> None:
        request = flight.request
        usage = Usage(request.prompt_tokens, request.output_tokens, flight.cached_tokens)
        self.router.finished(self._routes.pop(flight.number), usage, now)

    def failed(self, flight: Flight, now: float) -> None:
        self.router.finished(self._routes.pop(flight.number), None, now, is_failed=True)

    def tell(self, others: Sequence["PenstockGateway"], now: float) -> None:
        """What it has under way and has sent, to the others, who have it at once."""
        told = self.router.tell(now)
        self._told += 1
        batch = SignalBatch(self._told, told.sent)
        signal = Signal(self._number, self._told, self._host, told.loads, [batch])
        for other in others:
            if other is not self:
                other.router.hear(signal, told.sent, now)


def request_of(flight: Flight, *, is_strict: bool = False) -> InferenceRequest:
    """The request that a gateway would have read: a link for each block, one for the rest."""
    request = flight.request
    links = [_link(block) for block in flight.full_blocks]
    sizes = [BLOCK_TOKENS * _BYTES_PER_TOKEN] * len(links)
    rest = request.prompt_tokens - len(links) * BLOCK_TOKENS
    if rest:
        links.append(_link(-1 - flight.number))
        sizes.append(rest * _BYTES_PER_TOKEN)
    return sample_request(
        id=RequestId(str(flight.number)),
        account=AccountId("simulated"),
        key=KeyId("simulated"),
        model=MODEL,
        body={},
        is_stream=True,
        cache_salt="",
        chain=PromptChain(
            links=tuple(links),
            sizes=tuple(sizes),
            earlier=request.earlier_tokens // BLOCK_TOKENS if request.turn else 0,
        ),
        session_key=_link(request.session),
        is_affinity_strict=is_strict,
    )


def replica_id(number: int) -> ReplicaId:
    return ReplicaId(f"replica-{number}")


def replica_number(replica: ReplicaId) -> int:
    return int(replica.rpartition("-")[2])


def _link(number: int) -> int:
    # The upper 62 bits, which is what a link has.
    return mix(number & (2**64 - 1)) >> 2 or 1


def _replica(number: int, state: ReplicaState) -> Replica:
    return Replica(
        id=replica_id(number),
        model=MODEL.id,
        url="",
        state=state,
        served_name="",
        slots_live=_SLOTS_LIVE,
    )
