"""awaited_weights: only of wants that lack replicas, and whose engines read them."""

import msgspec

from penstock.fleet.intent import FleetObservation, Observed, Phase, Want
from penstock.fleet.weights.awaited_weights import awaited_weights, fetched_now
from penstock.records.model import ModelId, Recipe, Weights
from penstock.records.replica import ReplicaId, ReplicaState

WEIGHTS = Weights("/mnt/kimi", 595.0)
RECIPE = Recipe(("vllm", "{weights}", "{port}"), weights=WEIGHTS)
WANT = Want("w", "process", ModelId("m"), 1, recipe=RECIPE)
ONE = Observed(ReplicaId("r"), "w", "process", 1, ReplicaState.STARTING, Phase.ALIVE, since=0.0)


def test_weights_are_awaited_until_all_replicas_run() -> None:
    two = msgspec.structs.replace(WANT, count=2)
    assert awaited_weights([WANT], FleetObservation()) == {"w": WEIGHTS}
    assert awaited_weights([WANT], FleetObservation((ONE,))) == {}
    assert awaited_weights([two], FleetObservation((ONE,))) == {"w": WEIGHTS}


def test_engines_that_do_not_read_fetched_weights_await_none() -> None:
    unread = msgspec.structs.replace(RECIPE, command=("vllm", "{port}"))
    plain = Recipe(("vllm", "{port}"))
    for recipe in (unread, plain, None):
        want = msgspec.structs.replace(WANT, recipe=recipe)
        assert awaited_weights([want], FleetObservation()) == {}


def test_nothing_is_fetched_for_a_model_without_room() -> None:
    other = msgspec.structs.replace(WANT, name="v", model=ModelId("n"))
    assert fetched_now([WANT, other], {"w", "v"}, {"n"}) == [WANT]
    assert fetched_now([WANT, other], {"v"}, {}) == [other]
