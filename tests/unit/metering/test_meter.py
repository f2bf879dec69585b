"""A meter closes once, charges what was delivered, and never says 0 where it does not know."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.metering.journal_files import PRICE, TINY, Desk, ask, facts_of, picked

from penstock.errors import JournalFull
from penstock.metering.bill import Bill, bill
from penstock.metering.ledger_line import COLUMNS, agreed_in, closing, opening
from penstock.metering.usage_slots import USAGE_BYTES_MAX
from penstock.records.price import Price, cost_nanousd
from penstock.records.request import Outcome
from penstock.records.usage import Usage
from penstock.wire.engine_usage import write_usage

USAGE = Usage(1000, 50, 100)
UNKNOWN = ("prompt_tokens", "cached_tokens", "output_tokens")


def test_attempt_is_in_the_journal_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    request = ask(
        session="s", workflow="w", prompt_family="f" * 16, client_retry=2,
        caller_request_id="theirs", asked_at=desk.clock.now(), parent_id="p", purpose="step",
        contract="c@3", task="t\t1", model_asked="m",
    )  # fmt: skip
    desk.clock.advance(0.25)
    end = picked(cached_expected=900, session_moved="load", cache_break="message 3")
    meter = desk.metering.open(request, end, (7, 8))
    assert desk.rows() == []
    desk.clock.advance(1.0)
    meter.note(b'{"prompt_tokens":1000,"completion_tokens":1}')
    desk.clock.advance(2.0)
    meter.settle(USAGE)
    (row,) = desk.rows()
    assert row == {
        "request": request.id, "attempt": "1", "account": "acme", "key": "key1",
        "model": "@cf/x/y", "replica": "r1", "session": "s", "prompt_family": "f" * 16,
        "workflow": "w", "tier": "now", "is_stream": "1", "client_retry": "2",
        "caller_request": "theirs", "waited_us": "250000",
        "input_nanousd_per_mtok": "600000000", "cached_input_nanousd_per_mtok": "150000000",
        "output_nanousd_per_mtok": "3000000000", "multiplier_bp": "10000", "limits": "{7,8}",
        "cached_expected": "900", "session_moved": "load", "cache_break": "message 3",
        "parent_id": "p", "purpose": "step", "contract": "c@3", "task": "t\\t1", "model_asked": "m",
        "duration_us": "3000000", "outcome": "ok", "error": "", "first_token_us": "1000000",
        "streamed_us": "2000000", "prompt_tokens": "1000", "cached_tokens": "100",
        "is_cached_estimated": "0", "output_tokens": "50",
        "charge_nanousd": str(cost_nanousd(USAGE, PRICE)), "charge_reason": "",
    }  # fmt: skip
    desk.journal.remove()


def test_what_came_first_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(), ())
    meter.settle(USAGE)
    charge = meter.charge_nanousd
    meter.close(Outcome.FAILED, usage=None, is_owed=False, error="engine_lost")
    meter.settle(Usage(9, 9))
    (row,) = desk.rows()
    assert (row["outcome"], row["error"]) == ("ok", "")
    assert meter.charge_nanousd == charge == cost_nanousd(USAGE, PRICE)
    desk.journal.remove()


@pytest.mark.parametrize("is_owed", [True, False])
def test_usage_that_is_not_known_is_null_and_free(tmp_path: Path, is_owed: bool) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(is_stream=False), picked(), ())
    meter.close(Outcome.CLIENT_LEFT, usage=None, is_owed=is_owed)
    (row,) = desk.rows()
    assert [row[name] for name in UNKNOWN] == [None, None, None]
    assert (row["charge_nanousd"], row["charge_reason"]) == ("0", "")
    assert (row["first_token_us"], row["streamed_us"]) == (None, None)
    desk.journal.remove()


def test_tokens_that_nobody_got_are_counted_and_free_with_a_reason(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(), ())
    meter.close(Outcome.FAILED, usage=USAGE, is_owed=False, error="engine_lost")
    (row,) = desk.rows()
    assert (row["output_tokens"], row["charge_nanousd"]) == ("50", "0")
    assert (row["charge_reason"], row["error"]) == ("not_delivered", "engine_lost")
    desk.journal.remove()


def test_estimated_tokens_are_charged_and_marked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    cut = desk.metering.open(ask(), picked(cached_expected=900), ())
    cut.close(Outcome.CLIENT_LEFT, usage=Usage(1000, 5, 800, is_estimated=True), is_owed=True)
    left = desk.metering.open(ask(), picked(cached_expected=900), ())
    left.close(Outcome.CLIENT_LEFT, usage=Usage(200, 0, is_estimated=True), is_owed=True)
    rows = desk.rows()
    charges = [cost_nanousd(usage, PRICE) for usage in (Usage(1000, 5, 800), Usage(200, 0))]
    assert [row["charge_nanousd"] for row in rows] == list(map(str, charges))
    assert [row["charge_reason"] for row in rows] == ["estimated"] * 2
    # What is expected in a cache is taken off once: an estimate has its own cached part, or none.
    assert [row["cached_tokens"] for row in rows] == ["800", None]
    assert [row["is_cached_estimated"] for row in rows] == ["1", "0"]
    desk.journal.remove()


def test_kill_leaves_an_estimate_marked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(cached_expected=900), ())
    usage = Usage(1000, 7, 800, is_estimated=True)
    meter.note(write_usage(usage))
    (row,) = desk.left_open()
    assert (row["outcome"], row["charge_reason"]) == ("interrupted", "estimated")
    assert [row[name] for name in UNKNOWN] == ["1000", "800", "7"]
    assert row["charge_nanousd"] == str(cost_nanousd(usage, PRICE))
    desk.journal.leave()


def test_unknown_cached_tokens_stay_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.metering.open(ask(), picked(), ()).settle(Usage(10, 5))
    desk.metering.open(ask(), picked(), ()).settle(Usage(10, 5, 0))
    assert [row["cached_tokens"] for row in desk.rows()] == [None, "0"]
    desk.journal.remove()


def test_stream_and_whole_answer_cost_the_same(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for is_stream in (True, False):
        desk.metering.open(ask(is_stream=is_stream), picked(), ()).settle(USAGE)
    assert len({row["charge_nanousd"] for row in desk.rows()}) == 1
    desk.journal.remove()


def test_first_token_is_timed_for_streams_only(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    in_one_piece = desk.metering.open(ask(), picked(), ())
    desk.clock.advance(0.5)
    in_one_piece.settle(USAGE)
    silent = desk.metering.open(ask(), picked(), ())
    desk.clock.advance(0.5)
    silent.settle(None)
    whole = desk.metering.open(ask(is_stream=False), picked(), ())
    whole.settle(USAGE)
    assert [row["first_token_us"] for row in desk.rows()] == ["500000", None, None]
    desk.journal.remove()


def test_kill_leaves_the_last_usage_noted_at_its_price(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(), ())
    (row,) = desk.left_open()
    assert [row[name] for name in UNKNOWN] == [None, None, None]
    for made in range(1, 20):
        meter.note(write_usage(Usage(1000, made)))
        (row,) = desk.left_open()
        assert (row["outcome"], row["prompt_tokens"]) == ("interrupted", "1000")
        assert row["output_tokens"] == str(made)
        assert row["cached_tokens"] is None
        assert row["charge_nanousd"] == str(cost_nanousd(Usage(1000, made), PRICE))
    meter.settle(USAGE)
    assert desk.left_open() == []
    desk.journal.remove()


CUTS = (Outcome.CLIENT_LEFT, Outcome.FAILED, Outcome.INTERRUPTED)


@pytest.mark.parametrize("outcome", CUTS)
def test_cut_stream_is_charged_for_the_cache_that_was_expected(
    tmp_path: Path, outcome: Outcome
) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(cached_expected=800), ())
    meter.close(outcome, usage=Usage(1000, 5), is_owed=True)
    (row,) = desk.rows()
    assert (row["cached_tokens"], row["is_cached_estimated"]) == ("800", "1")
    charge = cost_nanousd(Usage(1000, 5, 800), PRICE)
    assert (meter.charge_nanousd, row["charge_nanousd"]) == (charge, str(charge))
    desk.journal.remove()


def test_what_the_engine_has_told_is_never_estimated(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    told = desk.metering.open(ask(), picked(cached_expected=800), ())
    told.close(Outcome.CLIENT_LEFT, usage=Usage(1000, 5, 16), is_owed=True)
    silent = desk.metering.open(ask(), picked(cached_expected=800), ())
    silent.settle(Usage(1000, 50))
    whole = desk.metering.open(ask(is_stream=False), picked(cached_expected=800), ())
    whole.close(Outcome.FAILED, usage=Usage(1000, 50), is_owed=False)
    assert [row["cached_tokens"] for row in desk.rows()] == ["16", None, None]
    assert {row["is_cached_estimated"] for row in desk.rows()} == {"0"}
    desk.journal.remove()


def test_kill_leaves_the_cache_that_was_expected_as_an_estimate(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(cached_expected=800), ())
    meter.note(write_usage(Usage(1000, 3)))
    (row,) = desk.left_open()
    assert (row["cached_tokens"], row["is_cached_estimated"]) == ("800", "1")
    assert row["charge_nanousd"] == str(cost_nanousd(Usage(1000, 3, 800), PRICE))
    meter.note(write_usage(Usage(1000, 4, 0)))
    (row,) = desk.left_open()
    assert (row["cached_tokens"], row["is_cached_estimated"]) == ("0", "0")
    desk.journal.leave()


@given(
    st.builds(Usage, *[st.integers(0, 2**31)] * 2, st.none() | st.integers(0, 2**31)),
    st.none() | st.integers(0, 2**31),
    st.booleans(),
)
def test_estimate_is_never_more_than_the_prompt_nor_dearer(
    usage: Usage, expected: int | None, is_owed: bool
) -> None:
    billed = bill(usage, PRICE, is_owed=is_owed, cut_expecting=expected)
    assert billed.usage is not None
    assert billed.charge_nanousd <= cost_nanousd(usage, PRICE)
    assert is_owed or billed.charge_nanousd == 0
    if usage.cached_tokens is None and expected is not None:
        assert billed.is_cached_estimated
        assert billed.usage.cached_tokens == min(expected, usage.prompt_tokens)
    else:
        assert (billed.usage, billed.is_cached_estimated) == (usage, False)


def test_usage_too_long_for_its_slot_is_kept_in_short(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    meter = desk.metering.open(ask(), picked(), ())
    padding = b'"x":"%s"' % (b"x" * USAGE_BYTES_MAX)
    counts = write_usage(Usage(10, 3, 4))
    meter.note(counts[:-1] + b"," + padding + b"}")
    (row,) = desk.left_open()
    assert [row[name] for name in UNKNOWN] == ["10", "4", "3"]
    meter.note(b'{"prompt_tokens":-1,%s}' % padding)
    assert desk.left_open() == [row], "nonsense does not displace what was known"
    desk.journal.leave()


def test_slot_is_given_back_at_each_end_and_when_the_journal_is_full(tmp_path: Path) -> None:
    desk = Desk(tmp_path, TINY)
    with contextlib.suppress(JournalFull):
        while True:
            desk.metering.open(ask(), picked(), ()).settle(USAGE)
    for _ in range(3 * TINY.open_max):
        with pytest.raises(JournalFull, match="record"):
            desk.metering.open(ask(), picked(), ())
    slots = [desk.journal.slots.take() for _ in range(TINY.open_max)]
    assert len(set(slots)) == TINY.open_max
    desk.journal.remove()


def test_clock_that_was_set_back_does_not_end_a_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    request = ask(asked_at=desk.clock.now() + 3600)
    desk.metering.open(request, picked(), ()).settle(USAGE)
    assert int(desk.rows()[0]["waited_us"] or 0) < 0
    desk.journal.remove()


LABELS = st.text(st.characters(), max_size=256)


@given(LABELS, LABELS, LABELS)
def test_no_label_can_break_its_line(session: str, workflow: str, caller: str) -> None:
    request = ask(session=session, workflow=workflow, caller_request_id=caller)
    line = opening(request, picked(), 0, ()) + closing((0, None, None), Outcome.OK, "", Bill())
    assert line.count(b"\n") == 1
    assert line.count(b"\t") == len(COLUMNS) - 1
    assert b"\r" not in line
    assert b"\0" not in line
    facts = facts_of(line)
    assert facts["request"] == request.id
    for name, label in (("session", session), ("workflow", workflow), ("caller_request", caller)):
        found = (facts[name] or "").encode("utf-8").decode()
        if label.isprintable() and "\\" not in label:
            assert found == label


@given(
    st.builds(Price, *[st.integers(0, 10**15)] * 3, st.integers(0, 10**6)),
    st.none() | st.integers(0, 2**31),
)
def test_what_was_agreed_is_read_back_out_of_an_opening(price: Price, expected: int | None) -> None:
    request = ask(price=price, session="a\tb\\", workflow="\n")
    end = picked(cached_expected=expected, session_moved="drain", cache_break="tools")
    assert agreed_in(opening(request, end, -5, (1, 2**62))) == (price, expected)


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.none() | st.integers(0, 2**31))
def test_longest_end_finds_room(prompt: int, output: int, cached: int | None) -> None:
    usage = Usage(prompt, output, cached)
    dear = Price(10**15, 10**15, 10**15, 10**6)
    year = 366 * 86400 * 10**6
    billed = Bill(usage, cost_nanousd(usage, dear), "not_delivered", is_cached_estimated=True)
    line = closing((year, year, year), Outcome.INTERRUPTED, "x" * 40, billed)
    assert len(line) < 240
