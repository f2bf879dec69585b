"""The figures of a run: percentiles, sums, ratios, and nothing that nobody said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.cli.bench.figures import Report, report, spread
from penstock.cli.bench.loop_lag import LoopLag
from penstock.cli.bench.order import read_prices
from penstock.cli.bench.sample import STOPPED, Sample, SeenAnswer
from penstock.cli.bench.tables import busy_note, closing, spans_of
from penstock.cli.exit_codes import CommandFailed
from penstock.records.price import Price
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock


def sample(
    code: str = "ok", usage: Usage | None = None, cost: int | None = None, first: float = 0.1
) -> Sample:
    return Sample(0.0, code, 1.0, first, 0.9, usage, cost)


def figures(*samples: Sample, price: Price | None = None, lag: LoopLag | None = None) -> Report:
    seen = SeenAnswer(samples=list(samples), seconds=2.0)
    return report(seen, lag or LoopLag(ManualClock()), load="l", model="m", price=price)


def shown(made: Report, width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(closing(made, [100.0, 200.0]))
    return capture.get()


def test_percentiles_are_values_that_were_measured() -> None:
    made = spread([float(value) for value in range(1, 101)])
    assert (made.p50, made.p95, made.p99) == (50.0, 95.0, 99.0)
    assert spread([7.0]).p99 == 7.0
    assert spread([]).p50 is None


def test_errors_are_counted_by_code_and_stopped_ones_are_none() -> None:
    made = figures(sample(), sample("429 busy"), sample("429 busy"), sample("cut"), sample(STOPPED))
    assert made.errors == {"429 busy": 2, "cut": 1}
    assert (made.requests, made.ok, made.stopped) == (5, 1, 1)
    assert made.requests_per_second == 0.5


def test_failed_requests_have_no_part_in_the_times() -> None:
    made = figures(sample(first=0.1), sample("cut", first=9.0))
    assert made.first_token_ms.p99 == pytest.approx(100)


def test_time_per_token_is_that_between_tokens() -> None:
    made = figures(sample(usage=Usage(5, 10)), sample(usage=Usage(5, 1)))
    assert made.per_token_ms.p50 == pytest.approx(100)


def test_hit_ratio_is_of_prompts_whose_cached_part_is_known() -> None:
    made = figures(sample(usage=Usage(100, 1, 50)), sample(usage=Usage(900, 1)))
    assert made.hit_ratio == 0.5
    assert made.prompt_tokens == 1_000


def test_nothing_said_is_unknown_and_never_zero() -> None:
    made = figures(sample())
    assert (made.hit_ratio, made.cost_nanousd, made.cost_usd, made.prompt_tokens) == (None,) * 4
    assert "unknown" in shown(made)
    assert "$0" not in shown(made)


def test_cost_is_the_servers_and_says_what_is_missing() -> None:
    made = figures(sample(cost=1_000_000), sample())
    assert (made.cost_nanousd, made.cost_usd, made.cost_from) == (
        1_000_000,
        "0.001000000",
        "server",
    )
    assert made.cost_unknown == 1
    assert "of 1 answers unknown" in shown(made)


def test_prices_that_are_given_win() -> None:
    price = read_prices(("1", None, "2"))
    made = figures(sample(usage=Usage(1_000, 100, 500), cost=5), price=price)
    assert (made.cost_nanousd, made.cost_from) == (1_200_000, "prices")


def test_cost_needs_both_prices() -> None:
    assert read_prices((None, None, None)) is None
    with pytest.raises(CommandFailed, match="--price-input and --price-output"):
        read_prices(("1", None, None))


def test_late_loop_is_told_and_a_punctual_one_is_not() -> None:
    lag = LoopLag(ManualClock())
    for _ in range(100):
        lag.note(1.0)
    assert busy_note(figures(sample(), lag=lag)) is None
    for _ in range(5):
        lag.note(40.0)
    lag.note(10**6)
    made = figures(sample(), lag=lag)
    assert made.loop_late_p99_ms == 40.0
    assert "be 40 ms too long" in shown(made)


def test_closing_table_fits_a_narrow_terminal() -> None:
    usage = Usage(123_456_789, 1_234_567, 100_000_000)
    made = figures(
        *(sample(usage=usage, cost=10**12) for _ in range(200)), sample("503 no_replica")
    )
    for line in shown(made, width=80).splitlines():
        assert len(line) <= 80
        assert "…" not in line


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_every_first_token_has_its_bar(values: list[float]) -> None:
    spans = spans_of(values)
    assert sum(count for _, _, count in spans) == len(values)
    assert all(low <= high for low, high, _ in spans)
