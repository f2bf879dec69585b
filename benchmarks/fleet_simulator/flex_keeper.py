"""A keeper that pulls jobs for one simulated replica, by the very controller of `puller`.

It sees what a real one sees: what gateways told last, engine figures as old as its last reading,
and of its own jobs, whose answers come whole, only when it sent them and when they ended.
"""

from collections.abc import Collection

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.flex_jobs import JobQueue
from fleet_simulator.flight import Flight
from fleet_simulator.penstock_gateway import replica_id
from fleet_simulator.simulation import Simulation
from penstock.puller.headroom import Headroom, HeadroomObservation
from penstock.puller.settings import PullerSettings
from penstock.records.signal import EngineClaim, LoadClaim
from penstock.routing.peer_loads import PeerLoads

_MEAN_RATE = 0.1
_FIRST_RATE = 15_000.0


class PulledFlight:
    """A job of this keeper's. Until `begins_at` it cannot have begun to answer."""

    __slots__ = ("begins_at", "flight", "is_reserved")

    def __init__(self, flight: Flight, begins_at: float, *, is_reserved: bool) -> None:
        self.flight = flight
        self.begins_at = begins_at
        self.is_reserved = is_reserved

    @property
    def tokens(self) -> int:
        return self.flight.request.prompt_tokens


class FlexKeeper:
    """One replica's. To the simulation it is one more gateway, which sends to that replica only."""

    def __init__(
        self,
        number: int,
        replica: int,
        engine: SimulatedEngine,
        queue: JobQueue,
        settings: PullerSettings,
    ) -> None:
        self._number = number
        self._replica = replica
        self._engine = engine
        self._queue = queue
        self._headroom = Headroom(settings)
        self._claims = PeerLoads()
        self._claim = EngineClaim(replica_id(replica), is_healthy=True)
        self._jobs: dict[int, PulledFlight] = {}
        self._mean_tokens = 256.0
        # All that it sent and did not take back.
        self.sent: dict[int, Flight] = {}

    # As the simulation sees it

    def choose(self, flight: Flight, now: float, excluded: Collection[int]) -> int:
        del flight, now, excluded
        return self._replica

    def first_token(self, flight: Flight, now: float) -> None:
        """Nothing: answers to jobs come whole."""

    def finished(self, flight: Flight, now: float) -> None:
        del now
        self._jobs.pop(flight.number, None)

    def failed(self, flight: Flight, now: float) -> None:
        del now
        self._jobs.pop(flight.number, None)

    # What it hears and does

    def hear_gateway(self, sender: int, claim: LoadClaim | None, now: float) -> None:
        """What a gateway has under way here; None when that is nothing."""
        if claim is None:
            self._claims.forget(sender)
        else:
            self._claims.hear(sender, claim, self._engine.constants.kv_tokens, now)

    def read_engine(self, now: float) -> None:
        del now
        engine = self._engine
        self._claim = EngineClaim(
            replica_id(self._replica),
            is_healthy=True,
            running=engine.in_flight - engine.waiting,
            waiting=engine.left_waiting,
            kv_use=engine.cache.use,
            kv_tokens=engine.cache.size * BLOCK_TOKENS,
            prefill_rate=engine.prefill_rate,
        )

    def look(self, simulation: Simulation, now: float) -> None:
        """Ask the controller, and do what it says."""
        unbegun = [job for job in self._jobs.values() if now < job.begins_at]
        room = self._headroom.look(self._observe(unbegun, now), now)
        spare = [job for job in reversed(unbegun) if not job.is_reserved]
        for job in spare[: room.give_back]:
            del self._jobs[job.flight.number], self.sent[job.flight.number]
            simulation.give_up(job.flight, now)
            self._queue.put_back(job.flight)
        for _ in range(room.start):
            self._start(simulation, now, is_reserved=False)
        if now >= self._queue.mix.aged_from:
            for _ in range(room.start_aged):
                self._start(simulation, now, is_reserved=True)

    def _start(self, simulation: Simulation, now: float, *, is_reserved: bool) -> None:
        flight = self._queue.take(self._number, now)
        flight.is_behind = not is_reserved
        tokens = flight.request.prompt_tokens
        ahead = sum(job.tokens for job in self._jobs.values() if now < job.begins_at)
        begins_at = now + (ahead + tokens) / self._rate
        self._jobs[flight.number] = PulledFlight(flight, begins_at, is_reserved=is_reserved)
        self._mean_tokens += _MEAN_RATE * (tokens - self._mean_tokens)
        self.sent[flight.number] = flight
        simulation.send(flight, now)

    @property
    def _rate(self) -> float:
        return self._claim.prefill_rate or _FIRST_RATE

    def _observe(self, unbegun: list[PulledFlight], now: float) -> HeadroomObservation:
        claims = self._claims
        began = max(claims.head_at, claims.progress_at)
        spare = [job for job in unbegun if not job.is_reserved]
        return HeadroomObservation(
            slots=self._engine.constants.sequences_max,
            live=claims.in_flight,
            live_unread_tokens=claims.outstanding,
            live_head_seconds=max(0.0, now - began) if claims.head_at else 0.0,
            live_head_expected_seconds=claims.head_tokens / self._rate,
            flex=len(self._jobs),
            flex_unbegun=len(spare),
            flex_unread_tokens=sum(job.tokens for job in spare),
            flex_reserved=sum(job.is_reserved for job in self._jobs.values()),
            mean_tokens=self._mean_tokens,
            prefill_rate=self._rate,
            waiting=self._claim.waiting,
            kv_use=self._claim.kv_use,
        )
