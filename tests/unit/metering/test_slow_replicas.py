"""Which replicas are slow, against the others of their model."""

import pytest

from penstock.metering.reports.slow_replicas import median_if_slow

TIMES = {"r-1": 100.0, "r-2": 110.0, "r-3": 300.0}


@pytest.mark.parametrize(
    ("replica", "median"), [("r-1", None), ("r-2", None), ("r-3", 105.0), ("unknown", None)]
)
def test_a_replica_is_slow_at_one_and_a_half_times_the_median_of_the_others(
    replica: str, median: float | None
) -> None:
    assert median_if_slow(replica, TIMES) == median


def test_the_only_replica_is_slow_against_nobody() -> None:
    assert median_if_slow("r-1", {"r-1": 9000.0}) is None
    assert median_if_slow("r-1", {"r-1": 150.0, "r-2": 100.0}) == 100.0
    assert median_if_slow("r-1", {"r-1": 149.0, "r-2": 100.0}) is None
