"""Computes the next actions from (wanted, observed, now), leaving nothing to decide. Pure.

Guarantees: no more engines than wanted, counting draining ones, because they hold their GPUs until
they end, but not pods that others end, because a cluster counts their GPUs itself; no action for a
provider that could not be queried, because unknown does not mean empty; no start before its
back-off has passed, or without GPUs that nobody holds. `act.py` executes the actions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Set

import msgspec

from penstock.fleet.assign import NoRoom, assign
from penstock.fleet.intent import (
    Failures,
    FleetObservation,
    Intent,
    IntentLimits,
    Observed,
    Phase,
    Want,
)
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState


class StartReplica(msgspec.Struct, frozen=True):
    """Start a new replica under a new id."""

    replica: ReplicaId
    generation: int
    want: Want
    # The ids of the GPUs that it gets.
    gpus: tuple[str, ...] = ()


class MarkReady(msgspec.Struct, frozen=True):
    """List the replica in the roster as ready for requests."""

    replica: ReplicaId
    generation: int


class DrainReplica(msgspec.Struct, frozen=True):
    """Stop new requests through the roster; running requests may finish."""

    replica: ReplicaId
    generation: int
    reason: str
    is_failure: bool = False


class StopReplica(msgspec.Struct, frozen=True):
    """End the replica. Planned again until it has ended, so executing it must be idempotent."""

    replica: ReplicaId
    generation: int
    reason: str


class Forget(msgspec.Struct, frozen=True):
    """Remove an ended replica. `failures` is its want's new count, None if it did not fail."""

    replica: ReplicaId
    generation: int
    reason: str
    failures: Failures | None = None


Action = StartReplica | MarkReady | DrainReplica | StopReplica | Forget


def plan(
    intent: Intent, observation: FleetObservation, now: float, ids: Iterator[ReplicaId]
) -> list[Action]:
    """Return the actions that bring the observed replicas closer to the wanted ones."""
    actions: list[Action] = []
    surplus = _surplus(intent, observation)
    wants = {want.name: want for want in intent.wants}
    for replica in observation.replicas:
        if replica.provider in observation.unknown:
            continue
        failures = observation.failures.get(replica.want)
        if replica.phase is Phase.ENDING and _is_silent(replica, intent.limits, now):
            actions.append(_forget_silent(replica, failures, intent.limits, now))
        elif replica.phase is Phase.ENDED:
            actions.append(_forget(replica, failures, intent.limits, now))
        elif replica.id in surplus:
            actions += _let_go(replica, surplus[replica.id], intent, now)
        else:
            actions += _look_after(replica, wants.get(replica.want), intent.limits, now)
    if intent.may_start:
        actions += _starts(intent, observation, now, ids)
    return actions


def reasons_to_wait(
    intent: Intent, observation: FleetObservation, actions: Iterable[Action]
) -> dict[ModelId, str]:
    """Return why replicas are missing that `plan` cannot start here, by their model."""
    starts = [action for action in actions if isinstance(action, StartReplica)]
    held = _held(observation).union(gpu for start in starts for gpu in start.gpus)
    present = _present(observation)
    present.update(start.want.name for start in starts)
    reasons: dict[ModelId, str] = {}
    for want in intent.wants:
        if want.part.is_early:
            continue
        if present[want.name] < want.count and not intent.is_stopping:
            if not intent.may_start:
                reasons[want.model] = "this host is cordoned"
                continue
            gpus = assign(observation.gpus, held, want.gpus, intent.limits.gpu_foreign_mb)
            if isinstance(gpus, NoRoom):
                reasons[want.model] = gpus.reason
    return reasons


def pause_seconds(failures: int, limits: IntentLimits) -> float:
    """Return the pause before a start that follows this many consecutive failures."""
    if failures <= 0:
        return 0.0
    # The exponent is capped, because 10.0 ** 400 overflows a float.
    exponent = min(failures - 1, 64)
    grown = limits.restart_first_seconds * limits.restart_factor**exponent
    return min(grown, limits.restart_seconds_max)


def _surplus(intent: Intent, observation: FleetObservation) -> dict[ReplicaId, str]:
    """Return the replicas to end, with reasons: unready before ready, newest first."""
    reasons: dict[ReplicaId, str] = {}
    left = {want.name: want.count for want in intent.wants}
    leaders = {want.part.leader for want in intent.wants}
    # Ids sort by the time they were made, so the oldest ready replica is kept longest.
    by_worth = sorted(observation.replicas, key=lambda r: (_WORTH[r.state], r.id))
    for replica in by_worth:
        if replica.phase is Phase.ENDED:
            continue
        reason = _unwanted(intent, replica, leaders)
        if not reason and left.get(replica.want, 0) <= 0:
            reason = "not wanted"
        if reason:
            reasons[replica.id] = reason
        else:
            left[replica.want] -= 1
    return reasons


# The order in which replicas are kept: ready before starting; draining ones are always surplus.
_WORTH = {
    ReplicaState.READY: 0,
    ReplicaState.STARTING: 1,
    ReplicaState.DRAINING: 2,
    ReplicaState.GONE: 3,
}


def _unwanted(intent: Intent, replica: Observed, leaders: Set[ReplicaId]) -> str:
    """Return why a replica must end whatever is wanted; "" if it need not."""
    orders = intent.orders
    reasons = (
        (intent.is_stopping, "the keeper stops its replicas"),
        (replica.id in orders.restarts, "restarted by command"),
        (replica.id in orders.broken, "its part on another host has ended"),
        (replica.id in orders.drains, "drained by command"),
        # A part serves until control has drained the first one.
        (orders.is_draining and not replica.leader, "its host is drained"),
        (replica.leader and replica.leader not in leaders, "its first part has ended"),
        (replica.is_superseded, "superseded by a newer generation"),
        (replica.phase is Phase.ORPHANED, "its supervisor is dead"),
        (replica.phase is Phase.ENDING, replica.detail or "ended by others"),
        (replica.state is ReplicaState.DRAINING, replica.detail or "draining"),
    )
    return next((reason for applies, reason in reasons if applies), "")


def _let_go(replica: Observed, reason: str, intent: Intent, now: float) -> list[Action]:
    """Drain the replica, wait until its requests finish, then stop it."""
    key = (replica.id, replica.generation)
    is_broken = replica.id in intent.orders.broken
    is_waited_for = not is_broken and replica.id not in intent.orders.restarts
    match replica.state:
        case ReplicaState.STARTING:
            # A starting replica never took a request, so there is nothing to wait for.
            return [DrainReplica(*key, reason, is_broken), StopReplica(*key, reason)]
        case ReplicaState.READY:
            return [DrainReplica(*key, reason, is_broken)]
        case _ if is_waited_for and not _is_drained(replica, intent.limits, now):
            return []
        case _:
            return [StopReplica(*key, reason)]


def _is_drained(replica: Observed, limits: IntentLimits, now: float) -> bool:
    if now - replica.since >= limits.drain_seconds or _is_silent(replica, limits, now):
        return True
    if replica.running != 0:
        return False
    # Gateways read the roster with a delay; until it has passed, new requests may still arrive.
    if replica.is_superseded:
        return now - replica.since >= limits.drain_settle_seconds
    return (
        replica.written_at is not None and now - replica.written_at >= limits.drain_settle_seconds
    )


def _look_after(
    replica: Observed, want: Want | None, limits: IntentLimits, now: float
) -> list[Action]:
    key = (replica.id, replica.generation)
    if replica.state is ReplicaState.STARTING:
        if replica.is_healthy:
            return [MarkReady(*key)]
        slowest = want.start_seconds_max if want is not None else None
        if slowest is not None and now - replica.since > slowest:
            reason = f"not ready after {slowest:.0f} s"
            return [DrainReplica(*key, reason, is_failure=True), StopReplica(*key, reason)]
    elif replica.state is ReplicaState.READY and _is_silent(replica, limits, now):
        reason = f"no health for {limits.unhealthy_seconds:.0f} s"
        return [DrainReplica(*key, reason, is_failure=True)]
    return []


def _is_silent(replica: Observed, limits: IntentLimits, now: float) -> bool:
    silent = replica.silent_since
    return silent is not None and now - silent >= limits.unhealthy_seconds


def _forget(replica: Observed, before: Failures | None, limits: IntentLimits, now: float) -> Forget:
    reason = replica.detail or "ended"
    if replica.state is ReplicaState.DRAINING and not replica.is_failed:
        return Forget(replica.id, replica.generation, reason)
    was_steady = (
        replica.ready_since is not None
        and now - replica.ready_since >= limits.restart_reset_seconds
    )
    count = 1 if was_steady or before is None else before.count + 1
    return Forget(replica.id, replica.generation, reason, Failures(count, now))


def _forget_silent(
    replica: Observed, before: Failures | None, limits: IntentLimits, now: float
) -> Forget:
    """Forget a replica that the cluster ends and that answers nobody.

    Its machine may be lost, so nobody will say when it has ended.
    """
    if replica.is_failed:
        return _forget(replica, before, limits, now)
    reason = replica.detail or "ended by others"
    return Forget(replica.id, replica.generation, f"{reason}; it does not answer")


def _starts(
    intent: Intent, observation: FleetObservation, now: float, ids: Iterator[ReplicaId]
) -> list[Action]:
    starts: list[Action] = []
    held = _held(observation)
    present = _present(observation)
    for want in intent.wants:
        if want.provider in observation.unknown or want.part.is_early:
            continue
        if want.name in intent.unfetched or want.part.leader in intent.lost_leaders:
            continue
        failures = observation.failures.get(want.name)
        if failures is not None:
            pause = pause_seconds(failures.count, intent.limits)
            if now < failures.last_at + pause:
                continue
        for _ in range(want.count - present[want.name]):
            gpus = assign(observation.gpus, held, want.gpus, intent.limits.gpu_foreign_mb)
            if isinstance(gpus, NoRoom):
                break
            chosen = tuple(gpu.id for gpu in gpus)
            held.update(chosen)
            starts.append(StartReplica(next(ids), 1, want, chosen))
    return starts


def _present(observation: FleetObservation) -> Counter[str]:
    """Return how many replicas of each want need no replacement yet.

    One that has just ended is forgotten in this plan and replaced in a later one, which takes its
    failure into account. One that the cluster ends may finish streams for minutes, while its
    successor already starts where there is room; only a failure is waited for, to be counted.
    """
    return Counter(
        replica.want
        for replica in observation.replicas
        if replica.phase is not Phase.ENDING or replica.is_failed
    )


def _held(observation: FleetObservation) -> set[str]:
    """Return the GPUs that may be in use: those of draining and of unknown replicas are."""
    return {
        gpu
        for replica in observation.replicas
        if replica.phase is not Phase.ENDED
        for gpu in replica.gpus
    }
