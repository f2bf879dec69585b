"""The planner by example: one promise each."""

import itertools
from collections.abc import Iterator

import msgspec

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
from penstock.records.host import Gpu
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaPart, ReplicaState

NOW = 10_000.0
WANT = Want("w", "process", ModelId("m"), 1, start_seconds_max=300.0)
LIMITS = IntentLimits()


def _ids() -> Iterator[ReplicaId]:
    return (ReplicaId(f"new-{n}") for n in itertools.count())


def _one(**changes: object) -> Observed:
    plain = Observed(
        id=ReplicaId("r1"),
        want="w",
        provider="process",
        generation=3,
        state=ReplicaState.READY,
        phase=Phase.ALIVE,
        since=NOW - 50,
        is_healthy=True,
        ready_since=NOW - 50,
        written_at=NOW - 50,
    )
    return msgspec.structs.replace(plain, **changes)


def _plan(
    *replicas: Observed,
    want: Want = WANT,
    failures: Failures | None = None,
    **intent: object,
) -> list[Action]:
    wanted = msgspec.structs.replace(Intent(wants=(want,), limits=LIMITS), **intent)
    seen = FleetObservation(replicas, failures={"w": failures} if failures else {})
    return plan(wanted, seen, NOW, _ids())


def test_what_is_missing_is_started_under_new_ids() -> None:
    want = msgspec.structs.replace(WANT, count=2)
    assert _plan(want=want) == [
        StartReplica(ReplicaId("new-0"), 1, want),
        StartReplica(ReplicaId("new-1"), 1, want),
    ]


def test_a_healthy_replica_that_is_wanted_is_left_alone() -> None:
    assert _plan(_one()) == []


def test_a_starting_replica_is_ready_when_its_health_answers() -> None:
    starting = _one(state=ReplicaState.STARTING, ready_since=None)
    assert _plan(starting) == [MarkReady(ReplicaId("r1"), 3)]
    assert _plan(msgspec.structs.replace(starting, is_healthy=False)) == []


def test_a_replica_that_is_too_slow_to_start_fails() -> None:
    slow = _one(state=ReplicaState.STARTING, is_healthy=False, since=NOW - 301, ready_since=None)
    drain, stop = _plan(slow)
    assert isinstance(drain, DrainReplica)
    assert drain.is_failure
    assert isinstance(stop, StopReplica)


def test_an_attached_server_may_take_as_long_as_it_likes() -> None:
    want = msgspec.structs.replace(WANT, start_seconds_max=None)
    slow = _one(state=ReplicaState.STARTING, is_healthy=False, since=NOW - 10**6)
    assert _plan(slow, want=want) == []


def test_nothing_is_done_for_a_provider_that_could_not_be_asked() -> None:
    seen = FleetObservation((_one(phase=Phase.ENDED),), unknown=frozenset({"process"}))
    assert plan(Intent(wants=(WANT,)), seen, NOW, _ids()) == []


def test_an_ended_replica_is_forgotten_before_another_is_started() -> None:
    ended = _one(phase=Phase.ENDED, detail="exit code 1")
    failures = Failures(1, NOW)
    assert _plan(ended) == [Forget(ReplicaId("r1"), 3, "exit code 1", failures)]
    assert _plan(failures=failures) == []
    assert len(_plan(failures=Failures(1, NOW - 1.0))) == 1


def test_failures_in_a_row_are_counted_and_a_steady_replica_begins_anew() -> None:
    before = Failures(4, NOW - 100)
    [early] = _plan(_one(phase=Phase.ENDED), failures=before)
    assert isinstance(early, Forget)
    assert early.failures == Failures(5, NOW)
    [late] = _plan(_one(phase=Phase.ENDED, ready_since=NOW - 120), failures=before)
    assert isinstance(late, Forget)
    assert late.failures == Failures(1, NOW)


def test_the_pause_doubles_up_to_its_limit() -> None:
    pauses = [pause_seconds(count, LIMITS) for count in (0, 1, 2, 3, 7, 8, 10_000)]
    assert pauses == [0, 1, 2, 4, 60, 60, 60]


def test_the_end_of_a_drained_replica_is_no_failure() -> None:
    drained = _one(state=ReplicaState.DRAINING, phase=Phase.ENDED, detail="not wanted")
    assert _plan(drained) == [Forget(ReplicaId("r1"), 3, "not wanted", None)]
    failed = msgspec.structs.replace(drained, is_failed=True)
    [forget] = _plan(failed)
    assert isinstance(forget, Forget)
    assert forget.failures == Failures(1, NOW)


def test_a_replica_is_taken_off_the_roster_before_it_is_stopped() -> None:
    orders = KeeperOrders(drains=frozenset({ReplicaId("r1")}))
    [drain] = _plan(_one(), orders=orders)
    assert drain == DrainReplica(ReplicaId("r1"), 3, "drained by command")
    draining = _one(state=ReplicaState.DRAINING, since=NOW - 5, written_at=NOW - 5)
    assert _plan(msgspec.structs.replace(draining, running=2), orders=orders) == []
    assert _plan(msgspec.structs.replace(draining, running=None), orders=orders) == []
    [stop] = _plan(msgspec.structs.replace(draining, running=0), orders=orders)
    assert stop == StopReplica(ReplicaId("r1"), 3, "drained by command")


def test_a_first_part_ends_at_once_when_another_part_has_ended() -> None:
    orders = KeeperOrders(broken=frozenset({ReplicaId("r1")}))
    reason = "its part on another host has ended"
    [drain] = _plan(_one(running=3), orders=orders)
    assert drain == DrainReplica(ReplicaId("r1"), 3, reason, is_failure=True)
    draining = _one(state=ReplicaState.DRAINING, running=3, is_failed=True, detail=reason)
    assert _plan(draining, orders=orders) == [StopReplica(ReplicaId("r1"), 3, reason)]
    ended = msgspec.structs.replace(draining, phase=Phase.ENDED)
    # It counts as a failure: a gang that always fails is started ever less often.
    assert _plan(ended, orders=orders) == [
        Forget(ReplicaId("r1"), 3, reason, Failures(1, NOW)),
    ]


def test_another_part_stays_as_long_as_its_first_one() -> None:
    part = _one(leader=ReplicaId("first"), running=0)
    want = msgspec.structs.replace(WANT, part=ReplicaPart(2, 1, ReplicaId("first")))
    assert _plan(part, want=want) == []
    # Its host is drained: control drains the first part, and this one serves it until then.
    assert _plan(part, want=want, orders=KeeperOrders(is_draining=True)) == []
    new = msgspec.structs.replace(WANT, part=ReplicaPart(2, 1, ReplicaId("second")))
    # Its first part has ended, and is not started again yet.
    early = msgspec.structs.replace(WANT, part=ReplicaPart(2, 1, is_early=True))
    assert _plan(want=early) == []
    assert reasons_to_wait(Intent((early,)), FleetObservation(), []) == {}
    # It has ended here, so its first part will: nothing is started for that one again.
    lost = frozenset({ReplicaId("first")})
    assert _plan(want=want, lost_leaders=lost) == []
    # It is not replaced before it has ended, because it holds its GPUs until then.
    assert _plan(part, want=new) == [DrainReplica(ReplicaId("r1"), 3, "its first part has ended")]


def test_a_replica_that_others_end_is_replaced_at_once_and_given_up_when_it_is_silent() -> None:
    ending = _one(phase=Phase.ENDING, detail="its pod is deleted in the cluster")
    start = StartReplica(ReplicaId("new-0"), 1, WANT)
    assert _plan(ending) == [
        DrainReplica(ReplicaId("r1"), 3, "its pod is deleted in the cluster"),
        start,
    ]
    draining = msgspec.structs.replace(ending, state=ReplicaState.DRAINING, running=2)
    assert _plan(draining) == [start]
    # Nobody says when something ends on a machine that is lost.
    silent = msgspec.structs.replace(draining, silent_since=NOW - 61)
    reason = "its pod is deleted in the cluster; it does not answer"
    assert _plan(silent) == [Forget(ReplicaId("r1"), 3, reason), start]
    # Its failure has to be counted first, or it would be started again and again without a pause.
    failed = msgspec.structs.replace(draining, is_failed=True, detail="not ready after 9 s")
    assert _plan(failed) == []
    silent = msgspec.structs.replace(failed, silent_since=NOW - 61)
    assert _plan(silent) == [
        Forget(ReplicaId("r1"), 3, "not ready after 9 s", Failures(1, NOW)),
    ]


def test_the_successor_of_a_replica_that_others_end_is_the_only_one() -> None:
    ending = _one(phase=Phase.ENDING, state=ReplicaState.DRAINING, running=2)
    successor = _one(id=ReplicaId("r2"))
    assert _plan(ending, successor) == []


def test_a_restarted_replica_is_not_waited_for() -> None:
    orders = KeeperOrders(restarts=frozenset({ReplicaId("r1")}))
    [drain] = _plan(_one(), orders=orders)
    assert drain == DrainReplica(ReplicaId("r1"), 3, "restarted by command")
    draining = _one(state=ReplicaState.DRAINING, since=NOW - 1, written_at=None, running=5)
    [stop] = _plan(draining, orders=orders)
    assert stop == StopReplica(ReplicaId("r1"), 3, "restarted by command")


def test_a_cordoned_host_keeps_what_it_has_and_starts_nothing() -> None:
    orders = KeeperOrders(is_cordoned=True)
    assert _plan(orders=orders) == []
    assert _plan(_one(), orders=orders) == []
    intent = Intent(wants=(WANT,), limits=LIMITS, orders=orders)
    reasons = reasons_to_wait(intent, FleetObservation(()), [])
    assert reasons == {WANT.model: "this host is cordoned"}


def test_a_drained_host_ends_what_it_has_and_starts_nothing() -> None:
    orders = KeeperOrders(is_draining=True)
    assert _plan(orders=orders) == []
    assert _plan(_one(), orders=orders) == [DrainReplica(ReplicaId("r1"), 3, "its host is drained")]


def test_a_drain_waits_until_gateways_have_read_the_roster() -> None:
    draining = _one(state=ReplicaState.DRAINING, since=NOW - 20, running=0)
    assert _plan(msgspec.structs.replace(draining, written_at=None)) == []
    assert _plan(msgspec.structs.replace(draining, written_at=NOW - 2.9)) == []
    assert len(_plan(msgspec.structs.replace(draining, written_at=NOW - 3.0))) == 1


def test_a_drain_ends_after_its_longest_time_even_if_nothing_was_written() -> None:
    stuck = _one(state=ReplicaState.DRAINING, since=NOW - 600, running=9, written_at=None)
    assert _plan(stuck) == [StopReplica(ReplicaId("r1"), 3, "draining")]


def test_a_drain_does_not_wait_for_an_engine_that_is_silent() -> None:
    silent = _one(state=ReplicaState.DRAINING, since=NOW - 5, silent_since=NOW - 61)
    assert [type(action) for action in _plan(silent)] == [StopReplica]


def test_a_ready_engine_that_falls_silent_is_drained_as_failed() -> None:
    assert _plan(_one(is_healthy=False, silent_since=NOW - 59)) == []
    [drain] = _plan(_one(is_healthy=False, silent_since=NOW - 60))
    assert isinstance(drain, DrainReplica)
    assert drain.is_failure


def test_an_engine_without_supervisor_is_drained_then_stopped() -> None:
    [drain] = _plan(_one(phase=Phase.ORPHANED))
    assert drain == DrainReplica(ReplicaId("r1"), 3, "its supervisor is dead")
    draining = _one(phase=Phase.ORPHANED, state=ReplicaState.DRAINING, running=0)
    assert [type(action) for action in _plan(draining)] == [StopReplica]


def test_a_ghost_is_ended_and_not_listed_again() -> None:
    [drain] = _plan(_one(is_superseded=True))
    assert isinstance(drain, DrainReplica)
    ghost = _one(is_superseded=True, state=ReplicaState.DRAINING, running=0, written_at=None)
    assert [type(action) for action in _plan(ghost)] == [StopReplica]


def test_when_fewer_are_wanted_the_oldest_ready_ones_are_kept() -> None:
    replicas = (
        _one(id=ReplicaId("a"), state=ReplicaState.STARTING, is_healthy=False),
        _one(id=ReplicaId("b")),
        _one(id=ReplicaId("c")),
    )
    actions = _plan(*replicas)
    assert [(type(a), a.replica) for a in actions] == [
        (DrainReplica, "a"),
        (StopReplica, "a"),
        (DrainReplica, "c"),
    ]


def test_a_model_that_is_no_longer_wanted_is_drained() -> None:
    assert _plan(_one(want="gone-from-settings"))[0] == DrainReplica(
        ReplicaId("r1"), 3, "not wanted"
    )


def test_a_stopping_keeper_starts_nothing_and_lets_all_go() -> None:
    assert _plan(is_stopping=True) == []
    assert [type(a) for a in _plan(_one(), is_stopping=True)] == [DrainReplica]


def test_a_draining_replica_is_not_replaced_while_it_holds_its_gpus() -> None:
    assert _plan(_one(state=ReplicaState.DRAINING, running=3, since=NOW - 1)) == []


def test_replicas_get_gpus_of_their_own() -> None:
    want = Want("w", "process", ModelId("m"), 2, gpus=2)
    seen = FleetObservation(gpus=_gpus(5))
    actions = plan(Intent((want,), LIMITS), seen, NOW, _ids())
    given = [action.gpus for action in actions if isinstance(action, StartReplica)]
    assert given == [("gpu-0", "gpu-1"), ("gpu-2", "gpu-3")]


def test_a_draining_replica_holds_its_gpus_and_the_next_one_says_that_it_waits() -> None:
    draining = _one(want="old", state=ReplicaState.DRAINING, running=1, gpus=("gpu-0",))
    want = Want("w", "process", ModelId("m"), 1, gpus=2)
    intent = Intent((want,), LIMITS)
    seen = FleetObservation((draining,), gpus=_gpus(2))
    actions = plan(intent, seen, NOW, _ids())
    assert actions == []
    assert reasons_to_wait(intent, seen, actions) == {
        "m": "needs 2 GPUs; of 2 here 1 are held by replicas"
    }
    ended = msgspec.structs.replace(draining, phase=Phase.ENDED)
    seen = FleetObservation((ended,), gpus=_gpus(2))
    actions = plan(intent, seen, NOW, _ids())
    assert [type(action) for action in actions] == [Forget, StartReplica]
    assert reasons_to_wait(intent, seen, actions) == {}


def _gpus(count: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, f"gpu-{index}") for index in range(count))


def test_nothing_is_started_before_its_weights_are_there_and_what_runs_stays() -> None:
    want = msgspec.structs.replace(WANT, count=2)
    unfetched = frozenset({want.name})
    assert _plan(want=want, unfetched=unfetched) == []
    assert _plan(_one(), want=want, unfetched=unfetched) == []
    assert len(_plan(_one(), want=want)) == 1
    intent = Intent(wants=(want,), limits=LIMITS, unfetched=unfetched)
    assert reasons_to_wait(intent, FleetObservation(()), []) == {}
