"""`penstock jobs watch`: what is shown of queues that grow and shrink."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.cli.job_watch import (
    Backlog,
    age,
    batch_row,
    stale_line,
    watch_line,
    watch_table,
)
from penstock.queue import Batch, FlexStats
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId, Door
from penstock.records.model import ModelId

M = ModelId("@cf/x/m")


def stats(queued: int, running: int = 0, rate: float | None = 2.0) -> FlexStats:
    return FlexStats(queued, running, 90.0 if queued else None, rate, None, None, 100.0)


def batch(open_jobs: int, running: int) -> Batch:
    return Batch(
        id=BatchId("b"), account=AccountId("a"), key=KeyId("k"), door=Door.WORKERS_AI, model=M,
        state="open", created_at=0, deadline=1000, ended_at=None, endpoint="", completion_window="",
        input_file="", metadata={}, is_sealed=True, is_cancelling=False, total=10,
        open_jobs=open_jobs, running=running, succeeded=10 - open_jobs, failed=0, cancelled=0,
        expired=0,
    )  # fmt: skip


def test_bar_is_of_the_most_that_was_seen() -> None:
    backlog = Backlog()
    (row,) = backlog.rows({M: stats(8, 2)}, (), 100.0)
    assert (row.done, row.total, row.eta_seconds, row.oldest_seconds) == (0, 10, 5.0, 10.0)
    (row,) = backlog.rows({M: stats(3, 1)}, (), 100.0)
    assert (row.done, row.total, row.is_done) == (6, 10, False)
    (row,) = backlog.rows({M: stats(19, 1)}, (), 100.0)
    assert (row.done, row.total) == (0, 20)
    (row,) = backlog.rows({M: stats(0)}, (), 100.0)
    assert (row.done, row.total, row.is_done, row.eta_seconds) == (20, 20, True, 0.0)


def test_models_with_nothing_to_do_are_left_out() -> None:
    assert Backlog().rows({M: stats(0)}, (), 100.0) == []


def test_without_a_rate_there_is_no_eta() -> None:
    (row,) = Backlog().rows({M: stats(5, rate=None)}, (), 100.0)
    assert row.eta_seconds is None
    assert watch_line(row).endswith("oldest 10s, ETA -")
    (row,) = Backlog().rows({M: stats(5, rate=0.0)}, (), 100.0)
    assert row.eta_seconds is None


def test_batch_is_counted_by_itself() -> None:
    row = batch_row(batch(4, 1), stats(100), (), 100.0)
    assert (row.done, row.total, row.queued, row.running, row.eta_seconds) == (6, 10, 3, 1, 2.0)
    assert batch_row(batch(0, 0), None, (), 100.0).is_done


def test_a_paused_model_has_no_eta() -> None:
    (row,) = Backlog().rows({M: stats(5)}, {M}, 100.0)
    assert (row.eta_seconds, row.is_paused) == (None, True)
    assert watch_line(row).endswith("oldest 10s, ETA paused")
    row = batch_row(batch(4, 1), stats(100), {M}, 100.0)
    assert (row.eta_seconds, row.is_paused) == (None, True)
    assert not batch_row(batch(0, 0), stats(100), {M}, 100.0).is_paused, "it is done"


def test_a_batch_has_no_eta_past_its_deadline() -> None:
    assert batch_row(batch(4, 1), stats(100), (), 998.0).eta_seconds == 2.0
    assert batch_row(batch(4, 1), stats(100), (), 998.5).eta_seconds is None


def test_old_figures_are_told() -> None:
    backlog = Backlog()
    assert stale_line(backlog.rows({M: stats(5)}, (), 130.0)) == ""
    assert "penstock control" in stale_line(backlog.rows({M: stats(5)}, (), 400.0))
    assert stale_line([]) == ""


@pytest.mark.parametrize("model", ["m", "@local/huggingfacetb/smollm2-135m-instruct"])
def test_table_fits_a_narrow_terminal(model: str) -> None:
    out = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())
    backlog, of = Backlog(), ModelId(model)
    backlog.rows({of: stats(10)}, (), 100.0)
    with out.capture() as captured:
        out.print(watch_table(backlog.rows({of: stats(5)}, (), 100.0), out))
    head, line = captured.get().splitlines()
    assert len(head) <= 80
    assert len(line) <= 80
    assert "██████" in line
    assert line.split()[0] == model.rpartition("/")[2]
    assert line.split()[-2:] == ["10s", "2s"]


def test_batch_is_named_by_its_whole_id_in_a_narrow_terminal() -> None:
    out = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())
    row = msgspec.structs.replace(batch_row(batch(4, 1), stats(100), (), 100.0), name="0" * 36)
    with out.capture() as captured:
        out.print(watch_table([row], out))
    head, line = captured.get().splitlines()
    assert "0" * 36 in line
    assert max(len(head), len(line)) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.6, "1m00s"), (90, "1m30s"), (3600, "1h00m"), (9000, "2h30m")],
)
def test_ages_are_short(seconds: float | None, text: str) -> None:
    assert age(seconds) == text


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10)), min_size=1, max_size=20))
def test_done_is_never_negative_nor_more_than_all(rounds: list[tuple[int, int]]) -> None:
    backlog = Backlog()
    for queued, running in rounds:
        for row in backlog.rows({M: stats(queued, running)}, (), 100.0):
            assert 0 <= row.done <= row.total
            assert row.total - row.done == queued + running
