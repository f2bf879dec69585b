"""Decides the next step of one deployment: what to start, what to end, how the rollout stands.

Pure. A *launch* is a way to start replicas; a new revision begins a new one only if it changes that
way. Guarantees: never more replicas than wanted and the surge; an old replica ends only when enough
others serve; a halted rollout goes back to the old launch and stands still.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from penstock.fleet.cell.judge import Verdict
from penstock.records.deployment import RolloutRules

# How much longer than its recipe allows a new replica may take before its rollout halts: its host
# ends it, and tries again.
_LATE_FACTOR: Final = 1.5


class RolloutStage(StrEnum):
    """How a rollout stands."""

    # All replicas are of one launch.
    DONE = "done"
    # Canaries start.
    CANARY = "canary"
    # They serve, and are compared with the others.
    COMPARING = "comparing"
    ROLLING = "rolling"
    # The new launch was worse, or did not start: its replicas end.
    HALTED = "halted"


class PlacedReplica(msgspec.Struct, frozen=True):
    """A replica of the deployment, as it is assigned to a host."""

    assignment: str
    launch: int
    # Whether it is listed as ready.
    is_ready: bool
    # Whether it is to end; it may still finish its requests.
    is_ending: bool
    age_seconds: float
    # Whether it is known to drain. One that is to end may serve, or even start, until its keeper
    # has heard of it.
    is_draining: bool = False
    # Requests at its engine.
    in_flight: int = 0


class Comparison(msgspec.Struct, frozen=True):
    """What the last comparison of the canaries said."""

    verdict: Verdict
    figures: str


class DeploymentState(msgspec.Struct, frozen=True):
    """All that a decision needs to know of a deployment."""

    # How many replicas are wanted now.
    target: int
    # The launch that is wanted, and the last one that served well; None before the first.
    launch: int
    stable: int | None
    stage: RolloutStage
    # How long it has stood so.
    stage_seconds: float
    is_paused: bool
    rules: RolloutRules
    start_seconds_max: float
    replicas: Sequence[PlacedReplica]
    comparison: Comparison | None = None
    # Whether there is no room for a replica that is to start.
    has_no_room: bool = False


class Decision(msgspec.Struct, frozen=True):
    """What to do now. `starts` has how many replicas of which launch to place."""

    starts: dict[int, int]
    ends: dict[str, str]
    stage: RolloutStage
    # Why it stands so, for people.
    reason: str = ""
    # The launch that has proved itself with this decision.
    stable: int | None = None


def decide(state: DeploymentState) -> Decision:
    """Return the next step. Called every second, so a step may wait for the next call."""
    decision = _decide(state)
    present = sum(not (each.is_ending and each.is_draining) for each in state.replicas)
    room = max(0, state.target + state.rules.surge - present)
    starts = {launch: min(count, room) for launch, count in decision.starts.items()}
    starts = {launch: count for launch, count in starts.items() if count}
    return msgspec.structs.replace(decision, starts=starts)


def _decide(state: DeploymentState) -> Decision:
    live = [replica for replica in state.replicas if not replica.is_ending]
    if state.is_paused:
        return _hold(state, live)
    if state.stable is None or state.stable == state.launch:
        return _move(state, live, state.launch, RolloutStage.ROLLING)
    if state.stage is RolloutStage.HALTED:
        return _move(state, live, state.stable, RolloutStage.HALTED)
    late = _late(state, live)
    if late:
        halted = _move(state, live, state.stable, RolloutStage.HALTED)
        return msgspec.structs.replace(halted, reason=late)
    if state.stage is RolloutStage.ROLLING or not state.rules.canary:
        return _move(state, live, state.launch, RolloutStage.ROLLING)
    return _compare(state, live, state.stable)


def _hold(state: DeploymentState, live: Sequence[PlacedReplica]) -> Decision:
    """Replace what was lost, and change nothing else."""
    missing = state.target - len(live)
    launch = state.launch if state.stable is None else state.stable
    return Decision({launch: missing} if missing > 0 else {}, {}, state.stage)


def _compare(state: DeploymentState, live: Sequence[PlacedReplica], stable: int) -> Decision:
    """Wait for the canaries, compare them, and go on or halt."""
    new = [replica for replica in live if replica.launch == state.launch]
    wanted = min(state.rules.canary, state.target)
    if not new or len(new) < wanted or not all(replica.is_ready for replica in new):
        return _move(state, live, state.launch, RolloutStage.CANARY)
    found = state.comparison
    if found is not None and found.verdict is Verdict.WORSE:
        # At once, and not when others have taken their place: they do harm.
        ends = {replica.assignment: "the rollout was halted" for replica in new}
        reason = f"the canary is worse: {found.figures}"
        return Decision({stable: len(new)}, ends, RolloutStage.HALTED, reason)
    is_compared = state.stage is RolloutStage.COMPARING
    if is_compared and state.stage_seconds >= state.rules.canary_minutes * 60:
        return _move(state, live, state.launch, RolloutStage.ROLLING)
    step = _move(state, live, state.launch, RolloutStage.COMPARING)
    missing = state.target - len(live)
    if missing > 0:
        # A replica of the old launch was lost: the comparison must not run short of them.
        step = msgspec.structs.replace(step, starts={stable: missing})
    return msgspec.structs.replace(step, reason="" if found is None else found.figures)


def _move(
    state: DeploymentState, live: Sequence[PlacedReplica], goal: int, stage: RolloutStage
) -> Decision:
    """Start replicas of one launch as far as the surge allows, and end others as they are replaced.

    `stage` is what it is called until it is done.
    """
    rules, target = state.rules, state.target
    new = [replica for replica in live if replica.launch == goal]
    old = [replica for replica in live if replica.launch != goal]
    is_part = stage in (RolloutStage.CANARY, RolloutStage.COMPARING)
    wanted = min(rules.canary, target) if is_part else target
    missing = max(0, wanted - len(new))
    started = min(missing, max(0, target + rules.surge - len(live)))
    starts = {goal: started} if started else {}
    if not old:
        ends = dict.fromkeys(_surplus(new, target), "not wanted")
        return _settle(state, Decision(starts, ends, stage), goal, new)
    # Where neither the surge nor the GPUs leave room, one replica at a time makes some. One that
    # ends already will.
    is_waiting = any(replica.is_ending for replica in state.replicas)
    is_stuck = missing > 0 and not is_waiting and (rules.surge == 0 or state.has_no_room)
    allowed = max(rules.unavailable, 1 if is_stuck else 0)
    spare = sum(replica.is_ready for replica in live) - target + allowed
    over = len(live) + started - target
    count = min(len(old) - (target - wanted), max(over, 1 if is_stuck else 0))
    return Decision(starts, _oldest(old, count, spare), stage)


def _settle(
    state: DeploymentState, step: Decision, goal: int, new: Sequence[PlacedReplica]
) -> Decision:
    """Return the step with its stage where all replicas are of one launch."""
    if step.stage is RolloutStage.HALTED:
        return step
    # At zero nothing proves a launch: its rollout goes on with the first replica that is woken.
    if goal == state.stable or not state.target:
        return msgspec.structs.replace(step, stage=RolloutStage.DONE)
    if state.stable is None:
        # A first launch proves itself with its first replica that serves.
        if any(replica.is_ready for replica in new):
            return msgspec.structs.replace(step, stage=RolloutStage.DONE, stable=goal)
        return step
    is_whole = len(new) >= state.target and all(replica.is_ready for replica in new)
    if is_whole and step.stage is RolloutStage.ROLLING:
        return msgspec.structs.replace(step, stage=RolloutStage.DONE, stable=goal)
    return step


def _late(state: DeploymentState, live: Sequence[PlacedReplica]) -> str:
    """Return why the new launch does not start; "" while it may still."""
    longest = state.start_seconds_max * _LATE_FACTOR
    late = [
        replica
        for replica in live
        if replica.launch == state.launch and not replica.is_ready and replica.age_seconds > longest
    ]
    return f"a new replica is not ready after {longest:.0f} s" if late else ""


def _surplus(own: Sequence[PlacedReplica], target: int) -> list[str]:
    """Return the replicas beyond the target: those that do not serve yet first, then the idlest.

    The fewer requests one has, the fewer sessions must move to another replica's cache.
    """
    by_worth = sorted(
        own,
        key=lambda replica: (not replica.is_ready, -replica.in_flight, -replica.age_seconds),
    )
    return [replica.assignment for replica in by_worth[target:]]


def _oldest(old: Sequence[PlacedReplica], count: int, spare: int) -> dict[str, str]:
    """Return `count` replicas to end, of which at most `spare` serve now."""
    ends: dict[str, str] = {}
    for replica in sorted(old, key=lambda replica: (replica.is_ready, -replica.age_seconds)):
        if len(ends) >= count:
            break
        if replica.is_ready:
            if spare <= 0:
                break
            spare -= 1
        ends[replica.assignment] = "replaced by another revision"
    return ends
