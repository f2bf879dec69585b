"""The simulated replicas: their engines, and which of them take new requests."""

from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.engine_model import SimulatedEngine
from fleet_simulator.flight import Flight


class Fleet:
    """Replicas by number. Numbers are never reused; a drained replica finishes what it has."""

    def __init__(self, count: int, constants: EngineConstants) -> None:
        self.constants = constants
        self.engines = [SimulatedEngine(constants) for _ in range(count)]
        self.ready = list(range(count))
        self.draining: list[int] = []

    def add(self) -> int:
        self.engines.append(SimulatedEngine(self.constants))
        number = len(self.engines) - 1
        self.ready = [*self.ready, number]
        return number

    def drain(self, number: int) -> None:
        self.ready = [other for other in self.ready if other != number]
        self.draining = [*self.draining, number]

    def kill(self, number: int) -> list[Flight]:
        """It dies: the flights that were there."""
        self.ready = [other for other in self.ready if other != number]
        self.draining = [other for other in self.draining if other != number]
        return self.engines[number].kill()
