"""Whole fleets on generated agent traffic: what routing must be worth on any machine's CI.

Seeded; a failure names its seed by its parameters. The figures on real traces are in docs/.
"""

from functools import cache

import msgspec
import pytest

from fleet_simulator.agent_traffic import AgentTraffic, make_traffic
from fleet_simulator.cell import PENSTOCK, Cell, CellKnowledge, Change, run_cell
from fleet_simulator.figures import Figures, figures_of
from fleet_simulator.flight import Flight, TraceRequest
from fleet_simulator.peer_rules.rules import (
    LEAST_REQUESTS,
    PEERS,
    ROUND_ROBIN,
    SESSION_HASH,
)
from fleet_simulator.scale_event import ScaleOutcome, run_scale_event, run_without_event

REPLICAS = 6
# About three quarters of what one gateway carries with the busier seed (2.45 at a p95 of 5 s). At
# nine tenths, 2.2, four gateways are nearly one only when they tell each other every 100 ms, which
# is the default; here they tell every 250 ms.
SPEED_UP = 1.9
# Where a lost replica leaves room in the others.
SPEED_UP_HALF = 1.4
SEEDS = (1, 2)


@cache
def traffic(seed: int) -> tuple[TraceRequest, ...]:
    return tuple(make_traffic(AgentTraffic(seconds=900.0, sessions_per_second=0.55), seed))


def cell(
    rule: str, seed: int, gateways: int = 1, knowledge: CellKnowledge = CellKnowledge.OWN
) -> Cell:
    return Cell(
        rule=rule,
        replicas=REPLICAS,
        speed_up=SPEED_UP,
        gateways=gateways,
        knowledge=knowledge,
        seed=seed,
    )


@cache
def measured(one: Cell) -> Figures:
    flights = run_cell(one, traffic(one.seed))
    return figures_of(flights, 0.1 * flights[-1].arrived)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", [ROUND_ROBIN, LEAST_REQUESTS])
def test_sessions_that_stay_with_their_cache_wait_less(rule: str, seed: int) -> None:
    ours, theirs = measured(cell(PENSTOCK, seed)), measured(cell(rule, seed))
    assert ours.ttft_p95 < 0.7 * theirs.ttft_p95
    assert ours.hit > 1.5 * theirs.hit


@pytest.mark.parametrize("seed", SEEDS)
def test_hits_are_nearly_those_of_sessions_that_never_move(seed: int) -> None:
    ours, hashed = measured(cell(PENSTOCK, seed)), measured(cell(SESSION_HASH, seed))
    assert ours.hit > 0.9 * hashed.hit
    assert ours.ttft_p95 < hashed.ttft_p95


@pytest.mark.parametrize("seed", SEEDS)
def test_four_gateways_that_hear_each_other_are_nearly_one(seed: int) -> None:
    one = measured(cell(PENSTOCK, seed))
    four = measured(cell(PENSTOCK, seed, 4, CellKnowledge.SHARED))
    assert four.ttft_p95 <= 1.30 * one.ttft_p95
    assert four.hit >= 0.95 * one.hit


@pytest.mark.parametrize("seed", SEEDS)
def test_four_silent_gateways_still_carry_the_load(seed: int) -> None:
    one, four = measured(cell(PENSTOCK, seed)), measured(cell(PENSTOCK, seed, 4))
    assert four.ttft_p95 <= 2.5 * one.ttft_p95


def test_four_gateways_beat_every_peer_that_shares_nothing() -> None:
    ours = measured(cell(PENSTOCK, 2, 4, CellKnowledge.SHARED)).ttft_p95
    theirs = {rule: measured(cell(rule, 2, 4)).ttft_p95 for rule in PEERS}
    assert all(ours < p95 for p95 in theirs.values()), (ours, theirs)


HEARD = (4, CellKnowledge.SHARED)
ALONE = (1, CellKnowledge.OWN)


@pytest.mark.parametrize("change", [Change.ADD_TWO, Change.DRAIN_ONE, Change.KILL_ONE])
@pytest.mark.parametrize("stand", [ALONE, HEARD], ids=["one", "four"])
def test_only_the_sessions_of_a_lost_replica_move(
    stand: tuple[int, CellKnowledge], change: Change
) -> None:
    outcome = measured_change(stand, change)
    assert outcome.moved - outcome.moved_without <= change.removed / REPLICAS + 0.05


@pytest.mark.parametrize("stand", [ALONE, HEARD], ids=["one", "four"])
def test_change_of_the_fleet_fails_nothing_but_begun_streams_and_slows_nobody_for_long(
    stand: tuple[int, CellKnowledge],
) -> None:
    outcome = measured_change(stand, Change.ALL)
    assert outcome.failed == 0
    assert outcome.lost > 0
    # A hundred sessions, so that much depends on which ones have their home on a lost replica:
    # over six draws of their links 1.3 to 2.7 with one gateway, 1.2 to 2.1 with four. Nine tenths
    # of these prompts are cached, and the sessions of two replicas compute theirs once more; the
    # traces have less cached.
    assert outcome.p95_after <= 3.0 * outcome.p95_before


def measured_change(stand: tuple[int, CellKnowledge], change: Change) -> ScaleOutcome:
    changing = msgspec.structs.replace(half_loaded(stand), change=change)
    return run_scale_event(changing, traffic(1), unchanged_flights(stand))


@cache
def unchanged_flights(stand: tuple[int, CellKnowledge]) -> list[Flight]:
    return run_without_event(half_loaded(stand), traffic(1))


def half_loaded(stand: tuple[int, CellKnowledge]) -> Cell:
    return msgspec.structs.replace(cell(PENSTOCK, 1, *stand), speed_up=SPEED_UP_HALF)


def test_same_seed_gives_the_same_run() -> None:
    one = cell(PENSTOCK, 1, 4, CellKnowledge.SHARED)
    first, second = (run_cell(one, traffic(1)[:300]) for _ in range(2))
    assert [f.replica for f in first] == [f.replica for f in second]
    assert [f.finished_at for f in first] == [f.finished_at for f in second]
