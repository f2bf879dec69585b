"""One cell of a comparison, a rule on a fleet at a load from a seed, and how it is run."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from random import Random

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.fleet import Fleet
from fleet_simulator.flight import Flight, TraceRequest, depart
from fleet_simulator.peer_rules.peer_gateway import AllKnowingGateway, PeerGateway
from fleet_simulator.peer_rules.rules import CACHE_AWARE, build_rule
from fleet_simulator.penstock_gateway import PenstockGateway, SimulatedRoster
from fleet_simulator.simulation import Gateway, Simulation
from penstock.records.signal import PeerState
from penstock.routing import RoutingSettings

PENSTOCK = "penstock"


class CellKnowledge(StrEnum):
    """What a gateway knows beside its own requests."""

    # A replica's own figures every 250 ms, as peers' gateways have; nothing with one gateway.
    OWN = "own"
    # What the other gateways tell every 250 ms.
    SHARED = "shared"
    # Everything, at once. Only for comparing this simulator with another.
    ALL = "all"


class Change(StrEnum):
    """Of the fleet, at half time."""

    NONE = "none"
    ADD_TWO = "two added"
    DRAIN_ONE = "one drained"
    KILL_ONE = "one killed"
    ALL = "all three"

    @property
    def removed(self) -> int:
        """How many replicas it takes away: their sessions must move."""
        return {Change.DRAIN_ONE: 1, Change.KILL_ONE: 1, Change.ALL: 2}.get(self, 0)


class Cell(msgspec.Struct, frozen=True):
    """What to run."""

    rule: str
    replicas: int
    speed_up: float
    gateways: int = 1
    knowledge: CellKnowledge = CellKnowledge.OWN
    seed: int = 1
    jitter_seconds: float = 0.0
    exchange_seconds: float = 0.25
    constants: EngineConstants = EngineConstants()
    # Of our own rule.
    settings: RoutingSettings = RoutingSettings(block_tokens=BLOCK_TOKENS)
    is_strict: bool = False
    # What happens to the fleet at half time.
    change: Change = Change.NONE


def run_cell(
    cell: Cell, requests: Sequence[TraceRequest], random: Random | None = None
) -> list[Flight]:
    """The flights in order of arrival, filled in."""
    random = random or Random(cell.seed)
    flights = depart(
        requests, speed_up=cell.speed_up, jitter_seconds=cell.jitter_seconds, random=random
    )
    for flight in flights:
        flight.gateway = random.randrange(cell.gateways)
    fleet = Fleet(cell.replicas, cell.constants)
    gateways: Sequence[PenstockGateway] = ()
    if cell.rule == PENSTOCK:
        simulation, gateways = build_ours(cell, fleet)
    else:
        simulation = _build_peers(cell, fleet, random)
    if cell.change is not Change.NONE:
        change = partial(_change_fleet, cell.change, fleet, simulation, gateways)
        simulation.at(flights[-1].arrived / 2, change)
    simulation.run(flights)
    return flights


def build_ours(
    cell: Cell, fleet: Fleet, keepers: Sequence[Gateway] = ()
) -> tuple[Simulation, list[PenstockGateway]]:
    """The simulation and its gateways. Keepers send flights too, and are counted behind them."""
    roster = SimulatedRoster(fleet)
    gateways = [
        PenstockGateway(number, fleet, roster, cell.settings, is_strict=cell.is_strict)
        for number in range(1, cell.gateways + 1)
    ]
    simulation = Simulation(fleet, [*gateways, *keepers])
    _meet(gateways, 0.0)
    _hear_engines(cell, simulation, [gateway.hear_keeper for gateway in gateways])
    if cell.gateways > 1:
        state = PeerState.HEARD if cell.knowledge is CellKnowledge.SHARED else PeerState.SILENT
        for place, gateway in enumerate(gateways, 1):
            gateway.note_peers(state)
            if state is PeerState.HEARD:
                # They do not all tell at the same moment.
                first = cell.exchange_seconds * place / cell.gateways
                tell = partial(gateway.tell, gateways)
                simulation.every(cell.exchange_seconds, first=first, action=tell)
    return simulation, gateways


def _meet(gateways: Sequence[PenstockGateway], now: float) -> None:
    """The roster is new to them."""
    for gateway in gateways:
        gateway.meet(now)


def _build_peers(cell: Cell, fleet: Fleet, random: Random) -> Simulation:
    kv_tokens = cell.constants.kv_tokens
    if cell.knowledge is CellKnowledge.ALL:
        rule = build_rule(cell.rule, random, kv_tokens)
        return Simulation(fleet, [AllKnowingGateway(rule, fleet)] * cell.gateways)
    gateways = [
        PeerGateway(
            build_rule(cell.rule, random, kv_tokens),
            fleet,
            gateways=cell.gateways,
            is_index_bounded=cell.rule != CACHE_AWARE,
        )
        for _ in range(cell.gateways)
    ]
    simulation = Simulation(fleet, gateways)
    _hear_engines(cell, simulation, [gateway.take_snapshot for gateway in gateways])
    return simulation


def _hear_engines(
    cell: Cell, simulation: Simulation, hear: Sequence[Callable[[int, float], None]]
) -> None:
    """The engines' own figures reach every gateway, one replica after the other."""
    for replica in range(cell.replicas):
        for act in hear:
            simulation.every(
                cell.exchange_seconds,
                first=cell.exchange_seconds * (replica + 1) / cell.replicas,
                action=partial(act, replica),
            )


def _change_fleet(
    change: Change,
    fleet: Fleet,
    simulation: Simulation,
    gateways: Sequence[PenstockGateway],
    now: float,
) -> None:
    if change in (Change.ADD_TWO, Change.ALL):
        fleet.add()
        fleet.add()
    if change in (Change.DRAIN_ONE, Change.ALL):
        fleet.drain(0)
    if change in (Change.KILL_ONE, Change.ALL):
        simulation.kill(1, now)
    _meet(gateways, now)
