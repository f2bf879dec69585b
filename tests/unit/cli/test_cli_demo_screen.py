"""What `penstock demo` shows: rows out of what was measured, and a table that fits."""

import pytest
from rich.console import Console

from penstock.cli.bench.figures import Report, report
from penstock.cli.bench.loop_lag import LoopLag
from penstock.cli.bench.sample import Sample, SeenAnswer
from penstock.cli.demo.acts import Act, row_of
from penstock.cli.demo.backlog import BacklogNow
from penstock.cli.demo.plan import plan_for
from penstock.cli.demo.screen import closing_table
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock


def figures(usage: Usage | None, cost: int | None = 250_000_000) -> Report:
    samples = [Sample(0.0, "ok", 1.0, 0.25, 0.5, usage, cost)]
    lag = LoopLag(ManualClock())
    return report(SeenAnswer(samples=samples, seconds=10.0), lag, load="l", model="m")


def shown(*reports: Report, jobs: BacklogNow | None = None) -> str:
    rows = [
        row_of(act, each, jobs if jobs is not None and act is Act.FLEX else BacklogNow(), 2)
        for act, each in zip(Act, reports, strict=False)
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(closing_table(rows))
    return capture.get()


def test_tokens_of_jobs_count_for_the_engines_seconds() -> None:
    jobs = BacklogNow(total=5, done=2, tokens=800)
    row = row_of(Act.FLEX, figures(Usage(1_000, 200)), jobs, engines=2)
    assert row.tokens_per_engine_second == pytest.approx(2_000 / 20)
    assert row.jobs == jobs


def test_unknown_tokens_make_no_rate() -> None:
    row = row_of(Act.AFFINITY, figures(None), BacklogNow(), engines=2)
    assert row.tokens_per_engine_second is None
    assert row.jobs is None


def test_closing_table_has_a_row_for_each_act_and_fits() -> None:
    jobs = BacklogNow(total=60, done=34, tokens=90_000, cost_nanousd=18_068_000)
    text = shown(*(figures(Usage(10**6, 10**4, 10**5)) for _ in Act), jobs=jobs)
    assert "Round robin, no affinity" in text
    assert "Penstock with affinity" in text
    assert "34 of 60 jobs were done, $0.018068" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_acts_that_were_not_played_have_no_row_and_no_figure() -> None:
    text = shown(figures(None, cost=None))
    assert "unknown" in text
    assert "Penstock with affinity" not in text


@pytest.mark.parametrize("is_quick", [True, False])
def test_screen_says_that_engines_are_imitated(*, is_quick: bool) -> None:
    plan = plan_for(is_real=False, is_quick=is_quick)
    assert "imitated" in plan.told
    assert "imitated" not in plan_for(is_real=True, is_quick=is_quick).told
    assert all(len(line) <= 80 for line in plan.told.splitlines())


@pytest.mark.parametrize("is_quick", [True, False])
def test_both_caches_hold_all_sessions_and_one_does_not(*, is_quick: bool) -> None:
    plan = plan_for(is_real=False, is_quick=is_quick)
    agents = plan.agents
    grown = agents.first_tokens + (agents.turns - 1) * (agents.turn_tokens + agents.output_tokens)
    assert grown * agents.sessions > plan.engine.kv_tokens
    assert grown * agents.sessions / 2 + agents.system_tokens < plan.engine.kv_tokens


def test_demo_takes_three_minutes_at_most() -> None:
    plan = plan_for(is_real=False, is_quick=False)
    assert len(Act) * plan.act_seconds_max <= 135
