"""The judge of the chaos runs sees what it is there to see: a blind one would always be content."""

import msgspec
import pytest
from tests.chaos.ledger_check import Row, Sent, Verdict, check
from tests.chaos.traffic import Heard

from penstock.records.price import Price

_PRICE = Price(600_000_000, 0, 3_000_000_000)
_ROW = Row("r1", "t1", "ok", 10, None, 5, 21_000, "", _PRICE.terms)
_SENT = Sent("r1", "finished", 5)
_HEARD = Heard("t1", 200, 4, is_whole=True, cost_nanousd=21_000)


def _judge(*rows: Row, sent: Sent = _SENT, heard: Heard = _HEARD) -> Verdict:
    return check(rows, [sent], {heard.tag: heard})


def _changed(**fields: object) -> Row:
    return msgspec.structs.replace(_ROW, **fields)


def test_what_is_right_is_found_right() -> None:
    assert _judge(_ROW).is_good


def test_an_attempt_without_a_row_is_missing() -> None:
    cut = Heard("t1", 200, 4)
    assert _judge(heard=cut).missing == 1


def test_an_answer_without_a_row_is_missing() -> None:
    assert check([], [], {"t1": _HEARD}).missing == 1


def test_two_charges_for_one_request_are_double() -> None:
    assert _judge(_ROW, _ROW).double == 1


def test_an_attempt_that_never_reached_the_engine_is_no_double() -> None:
    unreached = _changed(outcome="failed", prompt_tokens=None, output_tokens=None, charge_nanousd=0)
    assert _judge(unreached, _ROW).is_good


@pytest.mark.parametrize("output", [3, 6])
def test_a_count_below_what_was_heard_or_above_what_was_sent_is_wrong(output: int) -> None:
    row = _changed(outcome="interrupted", output_tokens=output, charge_nanousd=6000 + output * 3000)
    assert _judge(row, heard=Heard("t1", 200, 4)).wrong == 1


def test_a_whole_answer_with_fewer_tokens_than_were_sent_is_wrong() -> None:
    row = _changed(output_tokens=4, charge_nanousd=18_000)
    heard = msgspec.structs.replace(_HEARD, cost_nanousd=18_000)
    assert _judge(row, heard=heard).wrong == 1


def test_a_charge_that_is_not_the_tokens_price_is_wrong() -> None:
    assert _judge(_changed(charge_nanousd=21_001)).wrong


def test_a_cost_told_to_the_client_that_is_not_charged_is_wrong() -> None:
    assert _judge(_ROW, heard=msgspec.structs.replace(_HEARD, cost_nanousd=1)).wrong == 1
