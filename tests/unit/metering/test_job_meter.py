"""Attempts of jobs: free in the journal, and kept with their charge for the completion."""

from pathlib import Path

import pytest
from tests.unit.metering.journal_files import PRICE, Desk, ask, facts_of, picked

from penstock.metering import JobCharge
from penstock.metering.bill import JOB, NOT_DELIVERED, Bill, bill, withheld
from penstock.metering.meter import CompletionMeter
from penstock.records.price import Tier, cost_nanousd
from penstock.records.request import STEP, ChargedBy, Outcome
from penstock.records.usage import Usage
from penstock.wire.engine_usage import write_usage

USAGE = Usage(1000, 50, 100)
COMPLETION = ChargedBy.COMPLETION


@pytest.mark.parametrize("tier", [Tier.FLEX, Tier.BATCH])
def test_job_is_journaled_free_and_kept_with_its_charge(tmp_path: Path, tier: Tier) -> None:
    desk = Desk(tmp_path)
    end = picked()
    request = ask(is_stream=False, tier=tier, charged_by=COMPLETION, attempt_base=3)
    meter = desk.metering.open(request, end, ())
    assert isinstance(meter, CompletionMeter)
    meter.settle(USAGE)
    (row,) = desk.rows()
    assert (row["charge_nanousd"], row["charge_reason"], row["tier"]) == ("0", JOB, tier.value)
    assert (row["attempt"], meter.charge_nanousd) == ("4", 0)
    charge = str(cost_nanousd(USAGE, PRICE))
    kept = facts_of(end.charged_line)
    assert kept == row | {"charge_nanousd": charge, "charge_reason": ""}
    assert JobCharge(end.charged_line).request == request.id
    desk.journal.remove()


def test_what_is_wanted_now_is_charged_in_the_journal_and_kept_nowhere(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    end = picked()
    meter = desk.metering.open(ask(), end, ())
    meter.settle(USAGE)
    assert end.charged_line == b""
    assert desk.rows()[0]["charge_nanousd"] == str(meter.charge_nanousd)
    desk.journal.remove()


def test_last_attempt_of_a_job_is_the_one_that_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    end, request = picked(), ask(is_stream=False, tier=Tier.FLEX, charged_by=COMPLETION)
    first = desk.metering.open(request, end, ())
    end.attempts += 1
    first.close(Outcome.FAILED, usage=None, is_owed=False, error="engine_lost")
    second = desk.metering.open(request, end, ())
    second.settle(USAGE)
    first.settle(USAGE)
    assert facts_of(end.charged_line)["attempt"] == "2"
    assert [row["charge_reason"] for row in desk.rows()] == ["", JOB]
    desk.journal.remove()


def test_job_that_a_kill_leaves_open_is_free(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    request = ask(tier=Tier.FLEX, charged_by=COMPLETION, session="a\tb")
    meter = desk.metering.open(request, picked(), ())
    meter.note(write_usage(Usage(1000, 3)))
    (row,) = desk.left_open()
    assert (row["output_tokens"], row["charge_nanousd"], row["charge_reason"]) == ("3", "0", JOB)
    desk.journal.leave()


def test_step_of_live_work_is_charged_by_its_completion(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    step = ask(is_stream=False, charged_by=COMPLETION, purpose=STEP)
    end = picked()
    desk.metering.open(step, end, ()).settle(USAGE)
    (row,) = desk.rows()
    assert (row["tier"], row["charge_nanousd"], row["charge_reason"]) == ("now", "0", JOB)
    assert facts_of(end.charged_line)["charge_nanousd"] == str(cost_nanousd(USAGE, PRICE))
    left = desk.metering.open(step, picked(), ())
    left.note(write_usage(Usage(1000, 3)))
    (row,) = desk.left_open()
    assert (row["output_tokens"], row["charge_nanousd"], row["charge_reason"]) == ("3", "0", JOB)
    desk.journal.leave()


def test_what_was_never_delivered_keeps_its_own_reason() -> None:
    undelivered = bill(USAGE, PRICE, is_owed=False)
    assert withheld(undelivered) is undelivered
    assert undelivered.reason == NOT_DELIVERED
    nothing = Bill()
    assert withheld(nothing) is nothing
    estimate = Usage(1000, 50, 100, is_estimated=True)
    for usage in (USAGE, estimate):
        made = withheld(bill(usage, PRICE))
        assert (made.usage, made.charge_nanousd, made.reason) == (usage, 0, JOB)
