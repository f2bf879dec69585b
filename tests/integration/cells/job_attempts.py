"""Attempts of jobs, as the journal has them and as a completion charges them, for tests."""

from typing import Any

from tests.integration.cells.metering_lines import NOON, USAGE, id_at
from tests.unit.metering.journal_files import ask, picked

from penstock.metering import JobCharge
from penstock.metering.bill import bill, withheld
from penstock.metering.journal_reader import Row
from penstock.metering.ledger_line import closing, opening
from penstock.records.price import Price, Tier
from penstock.records.request import ChargedBy, Outcome
from penstock.records.usage import Usage

FLEX_PRICE = Price(600_000_000, 150_000_000, 3_000_000_000, 5_000)


def job_attempt(
    *,
    at: float = NOON,
    usage: Usage | None = USAGE,
    attempt: int = 1,
    outcome: Outcome = Outcome.OK,
    limits: tuple[int, ...] = (),
    **facts: Any,
) -> tuple[Row, JobCharge]:
    """One attempt's line for the drain, and its charge for the completion."""
    terms = {"tier": Tier.FLEX, "charged_by": ChargedBy.COMPLETION, "price": FLEX_PRICE}
    given = {"id": id_at(at), "asked_at": at, **terms, **facts}
    request = ask(is_stream=False, attempt_base=attempt - 1, **given)
    opened = opening(request, picked(replica="replica"), 1000, ())
    billed = bill(usage, request.terms.price, is_owed=usage is not None)
    times = (90_000, None, None)
    drained = opened + closing(times, outcome, "", withheld(billed))
    return drained, JobCharge(opened + closing(times, outcome, "", billed), limits)
