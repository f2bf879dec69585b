"""A charge in words for people: dollars, and nothing that says nothing."""

from datetime import UTC, date, datetime

import pytest

from penstock.cli.usage.charge import charge_line
from penstock.metering.bill import ESTIMATED
from penstock.metering.reports.rows import calculation
from penstock.records.price import Price
from penstock.records.usage import Usage
from penstock.wire.resources.usage import AttemptAnswer


def attempt(
    usage: Usage, *, multiplier_bp: int = 10_000, charge: int | None = None, reason: str = ""
) -> AttemptAnswer:
    price = Price(600_000_000, 150_000_000, 3_000_000_000, multiplier_bp)
    steps = calculation(usage, price, charge_nanousd=0, reason="")
    charge = steps.calculated_nanousd if charge is None else charge
    return AttemptAnswer(
        day=date(2026, 11, 10), request="r", attempt=1, account="a", key="k", model="m",
        replica="p", session="", prompt_family="", workflow="", tier="now", is_stream=False,
        client_retry=None, caller_request="", asked_at=datetime(2026, 11, 10, tzinfo=UTC),
        waited_ms=0, first_token_ms=None, output_tokens_per_second=None, duration_ms=1,
        prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens,
        is_cached_estimated=False, cached_expected=None, session_moved="", cache_break="",
        output_tokens=usage.completion_tokens, outcome="ok", error="",
        input_nanousd_per_mtok=price.input_nanousd_per_mtok,
        cached_input_nanousd_per_mtok=price.cached_input_nanousd_per_mtok,
        output_nanousd_per_mtok=price.output_nanousd_per_mtok, multiplier_bp=multiplier_bp,
        charge_nanousd=charge, charge_reason=reason, charge_usd="", calculation=steps,
        parent_id="", purpose="", contract="", task="", model_asked="", drained_at=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            attempt(Usage(1000, 50, 100)),
            "(900 uncached x $0.60 + 100 cached x $0.15 + 50 output x $3.00) / 1 million"
            " = $0.000705",
        ),
        (
            attempt(Usage(1000, 0, None), multiplier_bp=5_000),
            "(1,000 uncached x $0.60) / 1 million x 0.5 for the tier = $0.0003",
        ),
        (
            attempt(Usage(1000, 0, None), charge=0, reason="not_delivered"),
            "(1,000 uncached x $0.60) / 1 million = $0.0006; charged $0.00: not_delivered",
        ),
        (
            attempt(Usage(1000, 0, None), reason=ESTIMATED),
            "(1,000 uncached x $0.60) / 1 million = $0.0006; the tokens are estimated",
        ),
        (attempt(Usage(0, 0, None)), "$0.00"),
    ],
)
def test_charge_is_explained_in_dollars(told: AttemptAnswer, line: str) -> None:
    assert charge_line(told) == line
