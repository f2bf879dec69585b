"""Which GPUs a replica gets, and what is said where there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.fleet.assign import NoRoom, assign
from penstock.records.host import Gpu

FOREIGN_MB = 500


def host(count: int = 8, used: dict[int, int] | None = None) -> list[Gpu]:
    use = used or {}
    return [Gpu(index, f"GPU-{index}", used_mb=use.get(index, 0)) for index in range(count)]


def indices(found: tuple[Gpu, ...] | NoRoom) -> list[int]:
    assert not isinstance(found, NoRoom), found
    return [gpu.index for gpu in found]


def test_the_first_replica_gets_the_first_gpus() -> None:
    assert indices(assign(host(), (), 2, FOREIGN_MB)) == [0, 1]


def test_a_replica_without_gpus_gets_none() -> None:
    assert assign(host(), (), 0, FOREIGN_MB) == ()
    assert assign([], (), 0, FOREIGN_MB) == ()


def test_gpus_that_are_held_are_left_out() -> None:
    assert indices(assign(host(4), {"GPU-0", "GPU-2"}, 2, FOREIGN_MB)) == [1, 3]


def test_neighbours_come_first_and_the_shortest_run_that_fits() -> None:
    # Free are 0, 2 to 3, and 5 to 7.
    held = {"GPU-1", "GPU-4"}
    assert indices(assign(host(), held, 1, FOREIGN_MB)) == [0]
    assert indices(assign(host(), held, 2, FOREIGN_MB)) == [2, 3]
    assert indices(assign(host(), held, 3, FOREIGN_MB)) == [5, 6, 7]
    assert indices(assign(host(), held, 5, FOREIGN_MB)) == [2, 3, 5, 6, 7]


def test_a_gpu_that_others_use_is_left_alone() -> None:
    used = {0: FOREIGN_MB, 1: FOREIGN_MB + 1}
    assert indices(assign(host(3, used), (), 2, FOREIGN_MB)) == [0, 2]


@pytest.mark.parametrize(
    ("gpus", "held", "count", "reason"),
    [
        ([], (), 8, "needs 8 GPUs; this host has none"),
        (host(4), (), 8, "needs 8 GPUs; of 4 here none are held"),
        (host(4), ("GPU-0",), 4, "needs 4 GPUs; of 4 here 1 are held by replicas"),
        (host(1, {0: 9000}), (), 1, "needs 1 GPU; of 1 here 1 are used by other programs"),
        (
            host(4, {3: 9000}),
            ("GPU-0", "GPU-1"),
            2,
            "needs 2 GPUs; of 4 here 2 are held by replicas and 1 are used by other programs",
        ),
    ],
)
def test_it_says_why_there_is_no_room(
    gpus: list[Gpu], held: tuple[str, ...], count: int, reason: str
) -> None:
    assert assign(gpus, held, count, FOREIGN_MB) == NoRoom(reason)


@given(
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 1000)), unique_by=lambda gpu: gpu[0]),
    st.sets(st.integers(0, 63)),
    st.integers(0, 16),
)
def test_whatever_is_free_is_given_whole_and_once(
    gpus: list[tuple[int, int]], taken: set[int], count: int
) -> None:
    there = [Gpu(index, f"GPU-{index}", used_mb=used) for index, used in gpus]
    held = {f"GPU-{index}" for index in taken}
    free = {gpu.id for gpu in there if gpu.id not in held and gpu.used_mb <= FOREIGN_MB}
    found = assign(there, held, count, FOREIGN_MB)
    if isinstance(found, NoRoom):
        assert len(free) < count
    else:
        ids = [gpu.id for gpu in found]
        assert len(ids) == len(set(ids)) == count
        assert set(ids) <= free
