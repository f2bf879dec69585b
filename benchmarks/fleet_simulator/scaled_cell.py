"""A simulated fleet whose size follows the load by a rule, and what that costs and is worth."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from random import Random

import msgspec

from fleet_simulator.cell import Cell, build_ours
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.figures import figures_of, percentile
from fleet_simulator.fleet import Fleet
from fleet_simulator.flight import Flight, TraceRequest, depart
from fleet_simulator.penstock_gateway import PenstockGateway
from fleet_simulator.simulation import Simulation

LOOK_SECONDS = 10.0
# A replica is drained for at least so long.
_SETTLE_SECONDS = 3.0


class FleetLoad(msgspec.Struct, frozen=True):
    """What a rule is told of the fleet."""

    now: float
    # Replicas that serve, and those that are wanted.
    ready: int
    wanted: int
    running: int
    waiting: int
    # By ready replica: prompt tokens computed in the last look, as a share of what it can.
    prefill_uses: Sequence[float]
    kv_uses: Sequence[float]
    # First tokens of the last window, in seconds.
    first_tokens: Sequence[float]


ScaleRule = Callable[[FleetLoad], int]


class ScaledCell(msgspec.Struct, frozen=True):
    """What to run: a cell that begins with its replicas, and how long a start takes."""

    cell: Cell
    seconds: float
    start_seconds: float = 180.0
    window_seconds: float = 60.0


class ScaledOutcome(msgspec.Struct, frozen=True):
    """Of one run. Engines count from the beginning of their start to the end of their drain."""

    engine_hours: float
    ttft_p50: float
    ttft_p95: float
    hit: float
    starts: int
    unfinished: int
    # (time, engines that are paid for)
    sizes: list[tuple[float, int]]


def run_scaled(
    scaled: ScaledCell, requests: Sequence[TraceRequest], rule: ScaleRule
) -> ScaledOutcome:
    cell = scaled.cell
    random = Random(cell.seed)
    flights = depart(requests, speed_up=1.0, jitter_seconds=cell.jitter_seconds, random=random)
    for flight in flights:
        flight.gateway = random.randrange(cell.gateways)
    fleet = Fleet(cell.replicas, cell.constants)
    simulation, gateways = build_ours(cell, fleet)
    sizer = _Sizer(scaled, fleet, simulation, gateways, rule)
    sizer.watch(flights)
    simulation.every(LOOK_SECONDS, first=LOOK_SECONDS, action=sizer.look)
    simulation.run(flights)
    figures = figures_of(flights, scaled.start_seconds)
    return ScaledOutcome(
        engine_hours=sizer.engine_seconds(scaled.seconds) / 3600,
        ttft_p50=figures.ttft_p50,
        ttft_p95=figures.ttft_p95,
        hit=figures.hit,
        starts=sizer.starts,
        unfinished=figures.unfinished,
        sizes=sizer.sizes,
    )


class _Sizer:
    """Tells the rule of the load, and starts and drains replicas as it says."""

    def __init__(
        self,
        scaled: ScaledCell,
        fleet: Fleet,
        simulation: Simulation,
        gateways: Sequence[PenstockGateway],
        rule: ScaleRule,
    ) -> None:
        self._scaled = scaled
        self._fleet = fleet
        self._simulation = simulation
        self._gateways = gateways
        self._rule = rule
        self._wanted = scaled.cell.replicas
        self._starting = 0
        self._draining: list[tuple[int, float]] = []
        self._prefilled = [0] * len(fleet.engines)
        self._coming: deque[Flight] = deque()
        self._open: list[Flight] = []
        self._first: deque[tuple[float, float]] = deque()
        self.starts = 0
        self.sizes = [(0.0, self._wanted)]

    def watch(self, flights: Sequence[Flight]) -> None:
        self._coming.extend(flights)

    def engine_seconds(self, until: float) -> float:
        points = [*self.sizes, (until, 0)]
        return sum(
            size * max(0.0, min(after, until) - min(at, until))
            for (at, size), (after, _) in pairwise(points)
        )

    def look(self, now: float) -> None:
        self._end_drained(now)
        if now > self._scaled.seconds:
            return
        wanted = max(1, self._rule(self._load(now)))
        live = len(self._fleet.ready) + self._starting
        for _ in range(wanted - live):
            self._starting += 1
            self.starts += 1
            self._simulation.at(now + self._scaled.start_seconds, self._serve)
        for _ in range(min(live - wanted, len(self._fleet.ready) - 1)):
            self._drain(now)
        self._wanted = wanted
        self._note(now)

    def _serve(self, now: float) -> None:
        self._starting -= 1
        number = self._fleet.add()
        self._prefilled.append(0)
        for gateway in self._gateways:
            gateway.meet(now)
            hear = partial(gateway.hear_keeper, number)
            seconds = self._scaled.cell.exchange_seconds
            self._simulation.every(seconds, first=now + seconds, action=hear)
        self._note(now)

    def _drain(self, now: float) -> None:
        """The replica with the fewest requests: the least is waited for."""
        engines = self._fleet.engines
        number = min(self._fleet.ready, key=lambda each: engines[each].in_flight)
        self._fleet.drain(number)
        self._draining.append((number, now))
        for gateway in self._gateways:
            gateway.meet(now)

    def _end_drained(self, now: float) -> None:
        ended = [
            number
            for number, since in self._draining
            if now - since >= _SETTLE_SECONDS and not self._fleet.engines[number].in_flight
        ]
        self._draining = [each for each in self._draining if each[0] not in ended]
        if ended:
            self._note(now)

    def _note(self, now: float) -> None:
        size = len(self._fleet.ready) + self._starting + len(self._draining)
        if size != self.sizes[-1][1]:
            self.sizes.append((now, size))

    def _load(self, now: float) -> FleetLoad:
        engines = [self._fleet.engines[number] for number in self._fleet.ready]
        return FleetLoad(
            now=now,
            ready=len(engines),
            wanted=self._wanted,
            running=sum(engine.in_flight - engine.waiting for engine in engines),
            waiting=sum(engine.waiting for engine in engines),
            prefill_uses=[
                self._prefill_use(number, self._fleet.engines[number])
                for number in self._fleet.ready
            ],
            kv_uses=[engine.cache.use for engine in engines],
            first_tokens=self._first_tokens(now),
        )

    def _prefill_use(self, number: int, engine: SimulatedEngine) -> float:
        computed = engine.prefilled_tokens - self._prefilled[number]
        self._prefilled[number] = engine.prefilled_tokens
        return computed * engine.constants.seconds_per_prompt_token / LOOK_SECONDS

    def _first_tokens(self, now: float) -> list[float]:
        while self._coming and self._coming[0].arrived <= now:
            self._open.append(self._coming.popleft())
        still = []
        for flight in self._open:
            if flight.first_at is None:
                still.append(flight)
            else:
                self._first.append((flight.first_at, flight.first_at - flight.arrived))
        self._open = still
        while self._first and self._first[0][0] < now - self._scaled.window_seconds:
            self._first.popleft()
        return [wait for _, wait in self._first]


def p95_of_waits(waits: Sequence[float]) -> float:
    return percentile(sorted(waits), 0.95)
