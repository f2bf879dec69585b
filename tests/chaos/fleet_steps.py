"""The steps of a fleet's chaos: drawn by a seed, the same for real processes and the simulator."""

import random
from collections.abc import Iterator
from enum import StrEnum

import msgspec


class StepKind(StrEnum):
    """What is done to the cell."""

    DEPLOY = "deploy"
    SCALE = "scale"
    DRAIN_REPLICA = "drain_replica"
    RESTART_REPLICA = "restart_replica"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN_HOST = "drain_host"
    KILL_ENGINE = "kill_engine"
    KILL_KEEPER = "kill_keeper"
    KILL_CONTROL = "kill_control"
    CUT_OFF = "cut_off"
    POSTGRES_AWAY = "postgres_away"


KILLS = frozenset({StepKind.KILL_ENGINE, StepKind.KILL_KEEPER, StepKind.KILL_CONTROL})
_WEIGHTS = {
    StepKind.DEPLOY: 10,
    StepKind.SCALE: 22,
    StepKind.DRAIN_REPLICA: 10,
    StepKind.RESTART_REPLICA: 6,
    StepKind.CORDON: 5,
    StepKind.UNCORDON: 10,
    StepKind.DRAIN_HOST: 3,
    StepKind.KILL_ENGINE: 18,
    StepKind.KILL_KEEPER: 9,
    StepKind.KILL_CONTROL: 4,
    StepKind.CUT_OFF: 3,
    StepKind.POSTGRES_AWAY: 1,
}


class Step(msgspec.Struct, frozen=True):
    """One step. What a number means depends on the kind: an index among what there is."""

    kind: StepKind
    deployment: int
    host: int
    number: int
    seconds: float


def draw_steps(seed: int, *, deployments: int, hosts: int) -> Iterator[Step]:
    """Yield steps without end."""
    rng = random.Random(f"{seed}-steps")
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    while True:
        [kind] = rng.choices(kinds, weights)
        # One cut in three is longer than the time after which a host is given up.
        seconds = 28.0 if rng.random() < 1 / 3 else rng.uniform(1, 8)
        yield Step(
            kind,
            rng.randrange(deployments),
            rng.randrange(hosts),
            rng.randrange(10**6),
            seconds,
        )
