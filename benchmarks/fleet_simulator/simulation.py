"""The event loop of a simulated fleet: arrivals, steps of engines, timers, in order of time."""

import heapq
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from typing import Protocol

from fleet_simulator.fleet import Fleet
from fleet_simulator.flight import Flight

Action = Callable[[float], None]

# What has not ended so long after the last arrival never will: the rule has lost the fleet.
_SECONDS_AFTER_LAST = 3600.0


class Gateway(Protocol):
    """Chooses a replica for each of its flights, and is told how they go."""

    def choose(self, flight: Flight, now: float, excluded: Collection[int]) -> int: ...

    def first_token(self, flight: Flight, now: float) -> None: ...

    def finished(self, flight: Flight, now: float) -> None: ...

    def failed(self, flight: Flight, now: float) -> None: ...


class Simulation:
    """One run. `at` and `every` add what happens beside the requests."""

    def __init__(self, fleet: Fleet, gateways: Sequence[Gateway]) -> None:
        self._fleet = fleet
        self._gateways = gateways
        self._events: list[tuple[float, int, Action]] = []
        self._numbers = count()
        self._open = 0

    def at(self, when: float, action: Action) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), action))

    def every(self, seconds: float, *, first: float, action: Action) -> None:
        def act(now: float) -> None:
            action(now)
            self.at(now + seconds, act)

        self.at(first, act)

    def run(self, flights: Sequence[Flight], until: float | None = None) -> None:
        """Until all have ended, or that moment. Their records are filled in."""
        self._open = len(flights)
        for flight in flights:
            self.at(flight.arrived, partial(self.send, flight))
        end = max(flight.arrived for flight in flights) + _SECONDS_AFTER_LAST
        if until is not None:
            end = until
        while self._open:
            now, _, action = heapq.heappop(self._events)
            if now > end:
                return
            action(now)

    def kill(self, replica: int, now: float) -> None:
        """A replica dies: begun streams are lost, the others go to another replica."""
        for flight in self._fleet.kill(replica):
            gateway = self._gateways[flight.gateway]
            gateway.failed(flight, now)
            if flight.first_at is None:
                flight.preemptions = 0
                self._send(flight, now, excluded=(replica,))
            else:
                flight.is_lost = True
                self._open -= 1

    def send(self, flight: Flight, now: float) -> None:
        self._send(flight, now, excluded=())

    def give_up(self, flight: Flight, now: float) -> None:
        """Its sender wants it back from the replica."""
        engine = self._fleet.engines[flight.replica]
        before = engine.next_at
        engine.give_up(flight, now)
        if engine.next_at != before:
            self._await_engine(flight.replica)

    def _send(self, flight: Flight, now: float, *, excluded: Collection[int]) -> None:
        replica = self._gateways[flight.gateway].choose(flight, now, excluded)
        flight.replica = replica
        engine = self._fleet.engines[replica]
        before = engine.next_at
        engine.submit(flight, now)
        if engine.next_at != before:
            self._await_engine(replica)

    def _await_engine(self, replica: int) -> None:
        when = self._fleet.engines[replica].next_at
        if when is not None:
            self.at(when, partial(self._step, replica))

    def _step(self, replica: int, now: float) -> None:
        engine = self._fleet.engines[replica]
        if engine.next_at != now:
            # A request came in between, and the engine's steps were planned anew.
            return
        first, finished = engine.advance(now)
        self._await_engine(replica)
        for flight in first:
            self._gateways[flight.gateway].first_token(flight, now)
        for flight in finished:
            self._gateways[flight.gateway].finished(flight, now)
        self._open -= sum(not flight.is_flex for flight in finished)
