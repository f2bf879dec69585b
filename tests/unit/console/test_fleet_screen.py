"""The fleet's page: which replicas it marks as slow."""

from penstock.console.fleet_operations import ReplicaUse
from penstock.console.screens.fleet import times_slower
from penstock.fleet.replica_rows import ReplicaRow
from penstock.records.model import ModelId
from penstock.records.replica import LoadFigures, ReplicaId, ReplicaState


def row(id: str, model: str = "m") -> ReplicaRow:
    return ReplicaRow(
        id=ReplicaId(id),
        model=ModelId(model),
        host="h",
        url="",
        state=ReplicaState.READY,
        gpus=[],
        load=LoadFigures(),
        generation=1,
        slots_live=1,
        detail="",
        asked="",
        started_at=0.0,
        changed_at=0.0,
        silent_seconds=0.0,
    )


def use(first_token_ms: float | None, requests: int = 10) -> ReplicaUse:
    return ReplicaUse(requests, 0, None, first_token_ms)


def test_a_replica_is_slow_against_its_own_model_and_by_enough_requests() -> None:
    rows = [row("a"), row("b"), row("c"), row("few"), row("new"), row("other", "n")]
    known = {
        "a": use(100.0),
        "b": use(100.0),
        "c": use(300.0),
        "few": use(900.0, requests=9),
        "other": use(5000.0),
    }
    assert times_slower(rows, known) == {"c": 3.0}
    assert times_slower(rows, {}) == {}
    assert times_slower(rows, {"a": use(None), "c": use(300.0)}) == {}
