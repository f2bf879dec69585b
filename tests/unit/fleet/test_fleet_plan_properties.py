"""The planner under random worlds: what must hold whatever is seen."""

import itertools

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.fleet.intent import (
    Failures,
    FleetObservation,
    Intent,
    IntentLimits,
    KeeperOrders,
    Observed,
    Phase,
    Want,
)
from penstock.fleet.plan import (
    Action,
    DrainReplica,
    Forget,
    MarkReady,
    StartReplica,
    StopReplica,
    pause_seconds,
    plan,
    reasons_to_wait,
)
from penstock.fleet.states import ALLOWED
from penstock.records.host import Gpu
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState

NOW = 50_000.0
LIMITS = IntentLimits(drain_seconds=30.0, unhealthy_seconds=10.0)
PROVIDERS = ("process", "attach")
NAMES = ("w0", "w1", "w2")

_moments = st.floats(min_value=NOW - 1000, max_value=NOW)
_maybe = st.none() | _moments
_failures = st.builds(Failures, st.integers(1, 100), _moments)


@st.composite
def _wants(draw: st.DrawFn) -> tuple[Want, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return tuple(
        Want(
            name=name,
            provider=_provider(name),
            model=ModelId(f"m-{name}"),
            count=draw(st.integers(0, 4)),
            gpus=draw(st.integers(0, 2)) if _provider(name) == "process" else 0,
            start_seconds_max=draw(st.none() | st.floats(1, 500)),
        )
        for name in names
    )


def _provider(name: str) -> str:
    return PROVIDERS[0] if name != "w2" else PROVIDERS[1]


@st.composite
def _observed(draw: st.DrawFn, index: int) -> Observed:
    want = draw(st.sampled_from((*NAMES, "unwanted")))
    return Observed(
        id=ReplicaId(f"old-{index:03}"),
        want=want,
        provider=_provider(want),
        generation=draw(st.integers(1, 5)),
        state=draw(st.sampled_from(list(ReplicaState)[:3])),
        phase=draw(st.sampled_from(Phase)),
        since=draw(_moments),
        is_healthy=draw(st.booleans()),
        silent_since=draw(_maybe),
        ready_since=draw(_maybe),
        running=draw(st.none() | st.integers(0, 3)),
        written_at=draw(_maybe),
        is_superseded=draw(st.booleans()),
        is_failed=draw(st.booleans()),
        # Replicas that are seen have GPUs of their own: the planner never gave one twice.
        gpus=(f"gpu-{2 * index}", f"gpu-{2 * index + 1}")[: draw(st.integers(0, 2))],
    )


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[Intent, FleetObservation]:
    replicas = tuple(draw(_observed(index)) for index in range(draw(st.integers(0, 5))))
    intent = Intent(
        wants=draw(_wants()),
        limits=LIMITS,
        orders=KeeperOrders(
            is_cordoned=draw(st.booleans()),
            is_draining=draw(st.booleans()),
            drains=frozenset(r.id for r in replicas if draw(st.booleans())),
            restarts=frozenset(r.id for r in replicas if draw(st.booleans())),
        ),
        is_stopping=draw(st.booleans()),
    )
    unknown = draw(st.frozensets(st.sampled_from(PROVIDERS)))
    failures = draw(st.dictionaries(st.sampled_from(NAMES), _failures))
    gpus = tuple(Gpu(index, f"gpu-{index}") for index in range(draw(st.integers(0, 16))))
    return intent, FleetObservation(replicas, unknown, failures, gpus)


def _planned(intent: Intent, seen: FleetObservation, now: float = NOW) -> list[Action]:
    return plan(intent, seen, now, (ReplicaId(f"new-{n}") for n in itertools.count()))


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_nothing_is_done_for_an_unknown_provider(world: tuple[Intent, FleetObservation]) -> None:
    intent, seen = world
    owner = {replica.id: replica.provider for replica in seen.replicas}
    for action in _planned(intent, seen):
        provider = (
            action.want.provider if isinstance(action, StartReplica) else owner[action.replica]
        )
        assert provider not in seen.unknown


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_there_are_never_more_engines_than_wanted(world: tuple[Intent, FleetObservation]) -> None:
    intent, seen = world
    counts = {want.name: want.count for want in intent.wants}
    started = [a.want.name for a in _planned(intent, seen) if isinstance(a, StartReplica)]
    for name in set(started):
        # Pods that others end do not count: a cluster gives their GPUs back.
        others = (Phase.ENDED, Phase.ENDING)
        living = [r for r in seen.replicas if r.want == name and r.phase not in others]
        assert len(living) + started.count(name) <= counts[name]


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_every_action_names_what_was_seen_and_moves_only_where_allowed(
    world: tuple[Intent, FleetObservation],
) -> None:
    intent, seen = world
    states = {replica.id: replica.state for replica in seen.replicas}
    generations = {replica.id: replica.generation for replica in seen.replicas}
    actions = _planned(intent, seen)
    starts = [action.replica for action in actions if isinstance(action, StartReplica)]
    assert len(set(starts)) == len(starts)
    assert not set(starts) & set(states)
    for action in actions:
        if isinstance(action, StartReplica):
            continue
        assert action.generation == generations[action.replica]
        new = _state_after(action, states[action.replica])
        if new is not states[action.replica]:
            assert new in ALLOWED[states[action.replica]]
            states[action.replica] = new


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_no_gpu_is_given_twice_and_what_waits_says_why(
    world: tuple[Intent, FleetObservation],
) -> None:
    intent, seen = world
    actions = _planned(intent, seen)
    starts = [action for action in actions if isinstance(action, StartReplica)]
    held = [gpu for r in seen.replicas if r.phase is not Phase.ENDED for gpu in r.gpus]
    given_ = [gpu for start in starts for gpu in start.gpus]
    assert len({*held, *given_}) == len(held) + len(given_)
    assert all(len(start.gpus) == start.want.gpus for start in starts)
    free = len({gpu.id for gpu in seen.gpus} - {*held, *given_})
    waiting = reasons_to_wait(intent, seen, actions)
    if intent.may_start:
        assert all(free < want.gpus for want in intent.wants if want.model in waiting)
    else:
        assert not starts


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_no_start_comes_before_its_back_off(world: tuple[Intent, FleetObservation]) -> None:
    intent, seen = world
    for action in _planned(intent, seen):
        if isinstance(action, StartReplica) and action.want.name in seen.failures:
            failures = seen.failures[action.want.name]
            assert failures.last_at + pause_seconds(failures.count, LIMITS) <= NOW


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_only_a_ready_replica_with_nothing_to_wait_for_is_stopped(
    world: tuple[Intent, FleetObservation],
) -> None:
    intent, seen = world
    by_id = {replica.id: replica for replica in seen.replicas}
    for action in _planned(intent, seen):
        if isinstance(action, StopReplica):
            replica = by_id[action.replica]
            is_over = NOW - replica.since >= LIMITS.drain_seconds
            assert replica.state is not ReplicaState.READY
            assert (
                replica.state is ReplicaState.STARTING
                or replica.running == 0
                or replica.silent_since is not None
                or replica.id in intent.orders.restarts
                or is_over
            )


@settings(max_examples=50, deadline=None)
@given(_worlds())
def test_a_world_in_which_all_goes_well_reaches_what_is_wanted(
    world: tuple[Intent, FleetObservation],
) -> None:
    intent, seen = world
    intent = msgspec.structs.replace(intent, orders=KeeperOrders())
    ids = (ReplicaId(f"new-{n:04}") for n in itertools.count())
    enough = tuple(Gpu(index, f"gpu-{index}") for index in range(64))
    seen = msgspec.structs.replace(seen, unknown=frozenset(), gpus=enough)
    now = NOW
    for _ in range(60):
        actions = plan(intent, seen, now, ids)
        now += 5.0
        seen = _carried_out(seen, actions, now)
    assert plan(intent, seen, now, ids) == []
    for want in intent.wants:
        count = 0 if intent.is_stopping else want.count
        assert [r.state for r in seen.replicas if r.want == want.name] == ["ready"] * count
    wanted = {want.name for want in intent.wants}
    assert {replica.want for replica in seen.replicas} <= wanted


def _state_after(action: Action, state: ReplicaState) -> ReplicaState:
    match action:
        case StartReplica():
            return ReplicaState.STARTING
        case MarkReady():
            return ReplicaState.READY
        case DrainReplica():
            return ReplicaState.DRAINING
        case Forget():
            return ReplicaState.GONE
        case StopReplica():
            return state


def _carried_out(seen: FleetObservation, actions: list[Action], now: float) -> FleetObservation:
    """A world where engines start at once, answer, finish their requests and end when told."""
    replicas = {replica.id: replica for replica in seen.replicas}
    failures = dict(seen.failures)
    for action in actions:
        if isinstance(action, StartReplica):
            want = action.want
            replicas[action.replica] = Observed(
                action.replica,
                want.name,
                want.provider,
                1,
                ReplicaState.STARTING,
                Phase.ALIVE,
                now,
                gpus=action.gpus,
            )
            continue
        old = replicas[action.replica]
        state = _state_after(action, old.state)
        if isinstance(action, Forget):
            del replicas[action.replica]
            if action.failures is not None:
                failures[old.want] = action.failures
            continue
        changed = msgspec.structs.replace(old, state=state)
        if state is not old.state:
            changed = msgspec.structs.replace(changed, since=now, written_at=now)
        if isinstance(action, MarkReady):
            changed = msgspec.structs.replace(changed, ready_since=now)
        if isinstance(action, StopReplica):
            changed = msgspec.structs.replace(changed, phase=Phase.ENDED)
        replicas[action.replica] = changed
    well = {
        "is_healthy": True,
        "silent_since": None,
        "running": 0,
    }
    return FleetObservation(
        tuple(msgspec.structs.replace(replica, **well) for replica in replicas.values()),
        failures=failures,
        gpus=seen.gpus,
    )
