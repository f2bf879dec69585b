"""Who is killed when: a plan made from the seed alone, and the hand that carries it out."""

import asyncio
import random
import time
from collections.abc import Sequence
from enum import StrEnum

import msgspec
from tests.chaos.cluster import kill as kill_gateway
from tests.chaos.flex_cell import LEASE_SECONDS, FlexCell
from tests.chaos.flex_plan import BURST_SECONDS
from tests.chaos.postgres_cluster import PostgresCluster

# How long it takes until somebody starts again what was killed.
_DOWN_SECONDS = 0.0, 4.0
# Longer than a keeper's leases, at times, so that its jobs go to others.
_KEEPER_DOWN_SECONDS = 0.0, LEASE_SECONDS + 3.0
_STALL_SECONDS = LEASE_SECONDS + 1.0, LEASE_SECONDS + 4.0
_AFTER_BURST_SECONDS = 0.0, 0.1


class Target(StrEnum):
    PRIMARY = "primary"
    GATEWAY = "gateway"
    KEEPER = "keeper"
    ENGINE = "engine"
    CONTROL = "control"
    # Not killed but stopped until its leases have lapsed: it comes back and finishes too late.
    STALLED_KEEPER = "stalled keeper"


_WEIGHTS = {Target.GATEWAY: 3, Target.KEEPER: 4, Target.ENGINE: 3, Target.CONTROL: 2}


class Strike(msgspec.Struct, frozen=True):
    """`number` says which one of its kind."""

    at_seconds: float
    target: Target
    number: int
    down_seconds: float


def plan_kills(
    source: random.Random, *, kills: int, primary_kills: int, stalls: int, seconds: float
) -> list[Strike]:
    """Every kind at least once, the primary as often as said, at any moments within the time.

    Primaries are killed far enough apart that the cluster is whole again in between; everything
    else may coincide with anything. Who takes submissions is killed just after some were sent.
    """
    others = list(_WEIGHTS)
    more = kills - primary_kills - len(others)
    assert more >= 0
    targets = [*others, *source.choices(others, weights=list(_WEIGHTS.values()), k=more)]
    targets += [Target.STALLED_KEEPER] * stalls
    strikes = [_strike(source, target, source.uniform(0, seconds)) for target in targets]
    share = seconds / max(1, primary_kills)
    for turn in range(primary_kills):
        at = share * (turn + source.uniform(0.25, 0.75))
        strikes.append(_strike(source, Target.PRIMARY, at))
    return sorted(strikes, key=lambda strike: strike.at_seconds)


def _strike(source: random.Random, target: Target, at: float) -> Strike:
    down = _DOWN_SECONDS
    if target is Target.KEEPER:
        down = _KEEPER_DOWN_SECONDS
    elif target is Target.STALLED_KEEPER:
        down = _STALL_SECONDS
    elif target in {Target.PRIMARY, Target.GATEWAY}:
        at += source.uniform(*_AFTER_BURST_SECONDS) - at % BURST_SECONDS
    return Strike(at, target, source.randrange(6), source.uniform(*down))


class Killer:
    """Carries a plan out. What it killed it also starts again, as a supervisor would."""

    def __init__(self, cell: FlexCell, postgres: PostgresCluster) -> None:
        self._cell = cell
        self._postgres = postgres
        # One of a kind at a time: the next waits until the one before runs again.
        self._locks = {target: asyncio.Lock() for target in Target}
        self._locks[Target.STALLED_KEEPER] = self._locks[Target.KEEPER]
        self._began = 0.0
        self.strikes: dict[Target, int] = dict.fromkeys(Target, 0)

    @property
    def kills(self) -> int:
        return sum(self.strikes.values()) - self.strikes[Target.STALLED_KEEPER]

    async def run(self, plan: Sequence[Strike]) -> None:
        """Strike as planned; ends when everything that was killed runs again."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for strike in plan:
                wait = self._began + strike.at_seconds - time.monotonic()
                await asyncio.sleep(max(0.0, wait))
                group.create_task(self._carry_out(strike))

    async def _carry_out(self, strike: Strike) -> None:
        async with self._locks[strike.target]:
            began = time.monotonic()
            await asyncio.to_thread(self._act, strike)
            self.strikes[strike.target] += 1
        at, took = began - self._began, time.monotonic() - began
        print(f"{at:6.1f} s: {strike.target} {strike.number}, {took:.1f} s", flush=True)

    def _act(self, strike: Strike) -> None:
        cell, pause = self._cell, strike.down_seconds
        keeper = strike.number % len(cell.keepers)
        match strike.target:
            case Target.PRIMARY:
                self._postgres.kill_primary()
                time.sleep(pause)
                self._postgres.fail_over()
            case Target.GATEWAY:
                gateway = strike.number % len(cell.gateways)
                kill_gateway(cell.gateways[gateway])
                time.sleep(pause)
                cell.start_gateway(gateway)
            case Target.KEEPER:
                # Its engines live on, and the next keeper adopts them.
                cell.keepers[keeper].kill()
                time.sleep(pause)
                cell.keepers[keeper].start()
            case Target.STALLED_KEEPER:
                cell.keepers[keeper].stall(pause)
            case Target.ENGINE:
                cell.kill_engine(keeper)
            case Target.CONTROL:
                cell.control.kill()
                time.sleep(pause)
                cell.control.start()
