"""Live traffic on a fleet with and without a deep flex queue behind it, and bare engines flooded.

Both arms have the same arrivals. What the fleet did in a window is then given to bare engines all
at once, each the requests that it had served, to see how long they need for that.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from random import Random

import msgspec

from fleet_simulator.cell import Cell, build_ours
from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.figures import Figures, figures_of
from fleet_simulator.fleet import Fleet
from fleet_simulator.flex_jobs import JobMix, JobQueue
from fleet_simulator.flex_keeper import FlexKeeper
from fleet_simulator.flight import Flight, TraceRequest, depart
from fleet_simulator.penstock_gateway import PenstockGateway, replica_id
from fleet_simulator.simulation import Simulation
from penstock.puller.settings import PullerSettings

# How often gateways tell keepers, and keepers read their engines.
_TELL_SECONDS = 0.1
_READ_SECONDS = 1.0


class FlexCell(msgspec.Struct, frozen=True):
    """What to run. Figures are of the window from `start` to `end`; flex begins before it."""

    cell: Cell
    start: float
    end: float
    flex_from: float = 0.0
    # The run goes on for a while, so that a flood of the same does not run dry in the window.
    seconds_after: float = 10.0
    has_flex: bool = True
    mix: JobMix = JobMix()
    settings: PullerSettings = PullerSettings()


class FlexOutcome(msgspec.Struct, frozen=True):
    """Of one run."""

    live: Figures
    jobs: int
    jobs_handed_back: int
    # Of prompts and answers that began in the window. What came from a cache counts, so that an
    # engine which has to compute a prompt again does not look busier for it.
    tokens_per_engine_second: float
    # By replica: everything that it has begun to answer, in that order.
    served: dict[int, list[Flight]]


def run_flex_cell(flex: FlexCell, requests: Sequence[TraceRequest]) -> FlexOutcome:
    cell = flex.cell
    random = Random(cell.seed)
    flights = depart(requests, speed_up=cell.speed_up, jitter_seconds=0.0, random=random)
    until = flex.end + flex.seconds_after
    flights = [flight for flight in flights if flight.arrived <= until]
    for flight in flights:
        flight.gateway = random.randrange(cell.gateways)
    fleet = Fleet(cell.replicas, cell.constants)
    queue = JobQueue(flex.mix, cell.seed)
    keepers = [
        FlexKeeper(cell.gateways + number, number, engine, queue, flex.settings)
        for number, engine in enumerate(fleet.engines if flex.has_flex else ())
    ]
    simulation, gateways = build_ours(cell, fleet, keepers)
    if keepers:
        _join(simulation, gateways, keepers, flex)
    simulation.run(flights, until)
    jobs = [job for keeper in keepers for job in keeper.sent.values()]
    return _outcome(flex, flights, jobs, queue.handed_back)


def throughput_ratio(flex: FlexCell, outcome: FlexOutcome) -> float:
    """How long bare engines need for what the fleet did in the window, as a share of the window.

    The mean over the engines: work that is spread over them all at once would end at one time.
    """
    constants = flex.cell.constants
    shares = [_flood_share(flex, served, constants) for served in outcome.served.values()]
    return sum(shares) / len(shares)


def _flood_share(flex: FlexCell, served: Sequence[Flight], constants: EngineConstants) -> float:
    """Of one engine. It gets all that it ever had, in order, so that its cache is as warm and it is
    as full at the window's start and end. Work is counted when it begins to be answered.
    """
    before = sum(_begun(flight) <= flex.start for flight in served)
    within = sum(_begun(flight) <= flex.end for flight in served)
    begun = _flood(served, constants)
    return (begun[within - 1] - begun[before - 1]) / (flex.end - flex.start)


def _flood(served: Sequence[Flight], constants: EngineConstants) -> list[float]:
    """When a bare engine that is given all of it at once has read one prompt after the other."""
    engine = SimulatedEngine(constants)
    for flight in served:
        again = Flight(
            number=flight.number,
            request=flight.request,
            arrived=0.0,
            full_blocks=flight.full_blocks,
            reusable_blocks=flight.reusable_blocks,
        )
        engine.submit(again, 0.0)
    begun: list[float] = []
    while engine.next_at is not None and len(begun) < len(served):
        now = engine.next_at
        begun += [now] * len(engine.advance(now)[0])
    return begun


def _join(
    simulation: Simulation,
    gateways: Sequence[PenstockGateway],
    keepers: Sequence[FlexKeeper],
    flex: FlexCell,
) -> None:
    """Keepers hear the gateways, read their engines and look, none at the same moment."""
    for place, gateway in enumerate(gateways, 1):
        tell = partial(_tell_keepers, place, gateway, keepers)
        simulation.every(_TELL_SECONDS, first=_TELL_SECONDS * place / len(gateways), action=tell)
    look_seconds = flex.settings.look_seconds
    for place, keeper in enumerate(keepers):
        phase = place / len(keepers)
        simulation.every(_READ_SECONDS, first=_READ_SECONDS * phase, action=keeper.read_engine)
        look = partial(keeper.look, simulation)
        simulation.every(look_seconds, first=flex.flex_from + look_seconds * phase, action=look)


def _tell_keepers(
    sender: int, gateway: PenstockGateway, keepers: Sequence[FlexKeeper], now: float
) -> None:
    claims = {claim.replica: claim for claim in gateway.router.gossip.loads(now)}
    for number, keeper in enumerate(keepers):
        keeper.hear_gateway(sender, claims.get(replica_id(number)), now)


def _outcome(
    flex: FlexCell, flights: Sequence[Flight], jobs: Sequence[Flight], handed_back: int
) -> FlexOutcome:
    served: dict[int, list[Flight]] = defaultdict(list)
    tokens = jobs_begun = 0
    for flight in sorted((*flights, *jobs), key=_begun):
        if flight.first_at is None:
            continue
        served[flight.replica].append(flight)
        if flex.start < flight.first_at <= flex.end:
            request = flight.request
            tokens += request.prompt_tokens + request.output_tokens
            jobs_begun += flight.is_flex
    return FlexOutcome(
        live=figures_of(flights, flex.start, flex.end),
        jobs=jobs_begun,
        jobs_handed_back=handed_back,
        tokens_per_engine_second=tokens / (flex.end - flex.start) / flex.cell.replicas,
        served=dict(served),
    )


def _begun(flight: Flight) -> float:
    return float("inf") if flight.first_at is None else flight.first_at
