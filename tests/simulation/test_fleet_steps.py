"""The chaos of a fleet in a simulated world: the same steps, the real decisions, no processes."""

from collections import deque

import pytest
from tests.chaos.fleet_steps import Step, StepKind, draw_steps
from tests.simulation.fleet_rows import Host
from tests.simulation.fleet_world import FleetWorld

# GPUs on each host, and hosts of one replica.
_MODELS = {"one": (1, 1), "two": (2, 1), "four": (4, 1), "wide": (4, 2)}
_MOST = {"one": 6, "two": 4, "four": 2, "wide": 2}
_HOSTS, _GPUS = 8, 8
_STEPS, _STEPS_FULL = 1_000, 20_000
_REST_EVERY = 100
_QUIET_SECONDS = 60
# How long what was wanted before may still be listed: a lost host is noticed late.
_LATE_SECONDS = 30


class Run:
    """Does the steps, and looks after every second."""

    def __init__(self, seed: int) -> None:
        self.world = FleetWorld(_HOSTS, _GPUS, _MODELS)
        self._seed = seed
        self._returns: list[tuple[float, Host]] = []
        self._wanted: deque[dict[str, int]] = deque(maxlen=_LATE_SECONDS)
        for name in _MODELS:
            self.world.scale(name, 2)

    def go(self, count: int) -> None:
        self.rest(0)
        steps = draw_steps(self._seed, deployments=len(_MODELS), hosts=_HOSTS)
        for number in range(1, count + 1):
            self._do(next(steps))
            self._second()
            if number % _REST_EVERY == 0:
                self.rest(number)

    def rest(self, number: int) -> None:
        """All must be as wanted after a quiet while."""
        world = self.world
        while self._returns:
            self._second()
        world.has_postgres = world.has_control = True
        for host in world.hosts.values():
            host.is_cordoned = host.is_draining = False
            host.has_keeper = True
        for _ in range(_QUIET_SECONDS):
            self._second()
            if not world.wrong():
                return
        raise AssertionError(f"seed {self._seed}, step {number}: {world.wrong()}")

    def _second(self) -> None:
        world = self.world
        world.tick()
        for due in [each for each in self._returns if each[0] <= world.now]:
            due[1].is_frozen = False
            self._returns.remove(due)
        assert world.doubles() == []
        self._wanted.append({name: each.target for name, each in world.deployments.items()})
        for name, listed in world.listed().items():
            most = max(each[name] for each in self._wanted)
            assert listed <= most + 1, f"seed {self._seed}: {listed} of {name}, {most} wanted"

    def _do(self, step: Step) -> None:
        world = self.world
        host = world.hosts[f"gpu-{step.host + 1}"]
        name = list(_MODELS)[step.deployment]
        engines = list(host.engines.values())
        match step.kind:
            case StepKind.DEPLOY:
                world.roll_out(name)
            case StepKind.SCALE:
                world.scale(name, step.number % (_MOST[name] + 1))
            case StepKind.DRAIN_REPLICA | StepKind.RESTART_REPLICA if engines:
                order = step.kind.value.partition("_")[0]
                host.asked[engines[step.number % len(engines)].id] = order
            case StepKind.CORDON:
                host.is_cordoned = True
            case StepKind.UNCORDON:
                host.is_cordoned = host.is_draining = False
            case StepKind.DRAIN_HOST:
                host.is_cordoned = host.is_draining = True
            case StepKind.KILL_ENGINE if engines:
                engines[step.number % len(engines)].is_alive = False
            case _:
                self._harm(step, host)

    def _harm(self, step: Step, host: Host) -> None:
        world = self.world
        match step.kind:
            case StepKind.KILL_KEEPER:
                host.has_keeper = False
                self._second()
                self._second()
                host.has_keeper = True
            case StepKind.KILL_CONTROL:
                world.has_control = False
                self._second()
                world.has_control = True
            case StepKind.POSTGRES_AWAY:
                world.has_postgres = False
                for _ in range(3):
                    self._second()
                world.has_postgres = True
            case StepKind.CUT_OFF if not host.is_frozen:
                host.is_frozen = True
                self._returns.append((world.now + step.seconds, host))


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_events_comes_to_rest_as_wanted(seed: int, full: bool) -> None:
    Run(seed).go((_STEPS_FULL if full else _STEPS) // 2)
