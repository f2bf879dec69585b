"""The gate of the instruction counts."""

from instruction_count import grown


def test_a_count_within_a_quarter_of_the_recorded_one_passes() -> None:
    assert grown({"small": 1_250, "chunk": 10}, {"small": 1_000, "chunk": 100}) == []


def test_a_count_above_that_is_named_with_both_figures() -> None:
    told = grown({"small": 1_251, "chunk": 10}, {"small": 1_000, "chunk": 100})
    assert told == ["small: 1,251 instructions are above 1.25 x 1,000"]


def test_a_scenario_that_was_not_measured_is_not_judged() -> None:
    assert grown({"chunk": 10}, {"small": 1, "chunk": 10}) == []
