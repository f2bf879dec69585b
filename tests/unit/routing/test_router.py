"""The router: ready replicas only, ejected ones last, and a plain word when there is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import NoReplica
from penstock.records.account import AccountId, KeyId
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.request import InferenceRequest, RequestId
from penstock.routing import Router, Settings

MODEL = Model(
    id=ModelId("m"), family=Family.OPENAI, context_tokens=1, recipe=Recipe(command=("x",))
)
REQUEST = InferenceRequest(
    id=RequestId("1"),
    account=AccountId("a"),
    key=KeyId("k"),
    model=MODEL,
    body={},
    is_stream=False,
    cache_salt="",
)


class Roster:
    """A roster that a test writes."""

    def __init__(self, *replicas: Replica) -> None:
        self.replicas = replicas

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        return tuple(each for each in self.replicas if each.model == model)


def replica(name: str, slots: int = 2, model: str = "m") -> Replica:
    return Replica(
        id=ReplicaId(name),
        model=ModelId(model),
        url=f"http://{name}",
        state=ReplicaState.READY,
        served_name="m",
        slots_live=slots,
    )


def router_of(*replicas: Replica) -> Router:
    return Router(Roster(*replicas), Settings())


def test_idle_replicas_are_used_in_turn() -> None:
    router = router_of(replica("a"), replica("b"), replica("c"))
    picked = [router.pick(REQUEST, ()).id for _ in range(9)]
    assert sorted(picked) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


def test_only_replicas_of_the_model_are_picked() -> None:
    router = router_of(replica("other", model="n"), replica("mine"))
    assert {router.pick(REQUEST, ()).id for _ in range(5)} == {"mine"}


def test_model_without_a_replica_is_unavailable_and_may_be_tried_again() -> None:
    with pytest.raises(NoReplica, match="m") as refused:
        router_of().pick(REQUEST, ())
    assert refused.value.retryable
    assert refused.value.retry_after_seconds is not None


def test_replica_that_failed_this_request_is_not_picked_again() -> None:
    router = router_of(replica("a"), replica("b"))
    assert {router.pick(REQUEST, [ReplicaId("a")]).id for _ in range(5)} == {"b"}
    with pytest.raises(NoReplica):
        router.pick(REQUEST, [ReplicaId("a"), ReplicaId("b")])


def test_ejected_replica_is_left_out_while_another_one_exists() -> None:
    router = router_of(replica("a"), replica("b"))
    router.ejections.eject(ReplicaId("a"), 0.0)
    for _ in range(5):
        assert router.pick(REQUEST, ()).id == "b"
        router.outstanding.add(ReplicaId("b"))


def test_ejected_replica_is_tried_when_nothing_else_is_left() -> None:
    router = router_of(replica("a"), replica("b"))
    router.ejections.eject(ReplicaId("a"), 0.0)
    assert router.pick(REQUEST, [ReplicaId("b")]).id == "a"
    router.ejections.eject(ReplicaId("b"), 0.0)
    assert {router.pick(REQUEST, ()).id for _ in range(4)} == {"a", "b"}
    with pytest.raises(NoReplica):
        router.pick(REQUEST, [ReplicaId("a"), ReplicaId("b")])


def test_ejection_of_another_models_replica_changes_nothing() -> None:
    router = router_of(replica("a"), replica("x", model="n"))
    router.ejections.eject(ReplicaId("x"), 0.0)
    assert router.pick(REQUEST, ()).id == "a"


def test_capacity_is_free_while_one_replica_has_a_slot() -> None:
    router = router_of(replica("a", 1), replica("b", 1))
    assert router.free(ModelId("m"))
    router.outstanding.add(ReplicaId("a"))
    assert router.free(ModelId("m"))
    router.outstanding.add(ReplicaId("b"))
    assert not router.free(ModelId("m"))
    router.outstanding.remove(ReplicaId("a"))
    assert router.free(ModelId("m"))


def test_model_without_a_replica_is_not_busy() -> None:
    # It is refused with its own word by pick, instead of being made to wait.
    assert router_of().free(ModelId("m"))


def test_slots_of_an_ejected_replica_are_not_free_while_another_one_exists() -> None:
    router = router_of(replica("a", 1), replica("b", 1))
    router.ejections.eject(ReplicaId("a"), 0.0)
    assert router.free(ModelId("m"))
    router.outstanding.add(ReplicaId("b"))
    assert not router.free(ModelId("m"))
    router.ejections.eject(ReplicaId("b"), 0.0)
    assert router.free(ModelId("m")), "all are ejected: each may be tried"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 5), st.booleans(), st.booleans()), max_size=6
    ),
    st.integers(0, 5),
)
def test_pick_never_breaks_a_rule(world: list[tuple[int, int, bool, bool]], turns: int) -> None:
    replicas = [replica(f"r{n}", slots) for n, (slots, *_) in enumerate(world)]
    router = router_of(*replicas)
    failed = []
    for each, (_, count, is_ejected, has_failed) in zip(replicas, world, strict=True):
        for _ in range(count):
            router.outstanding.add(each.id)
        if is_ejected:
            router.ejections.eject(each.id, 0.0)
        if has_failed:
            failed.append(each.id)
    left = [each for each in replicas if each.id not in failed]
    healthy = [each for each in left if each.id not in router.ejections]
    for _ in range(turns + 1):
        if not left:
            with pytest.raises(NoReplica):
                router.pick(REQUEST, failed)
            continue
        picked = router.pick(REQUEST, failed)
        assert picked in (healthy or left)
        share = router.outstanding.at(picked.id) / picked.slots_live
        assert all(
            share <= router.outstanding.at(other.id) / other.slots_live for other in healthy or left
        )
