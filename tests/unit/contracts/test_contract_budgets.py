"""A contract's budget becomes limits, and what could never count is refused."""

import pytest
from tests.unit.contracts.contract_samples import MODELS, TOP, a_model, compiled

from penstock.catalogue import Catalogue
from penstock.contracts.budget_terms import owned_limits
from penstock.contracts.compiling import check_texts
from penstock.contracts.contract_error import ContractError
from penstock.contracts.differing import differences
from penstock.contracts.reading import read_contract
from penstock.records.limit import Measure, Period, Scope
from penstock.records.model import Capability
from penstock.records.price import Prices

NANO = 10**9
DEAR = a_model("dear", *Capability, aliases=("dear",), prices=(Prices(600, 100, 3000),))
CHEAP = a_model("cheap", aliases=("cheap",), prices=(Prices(60, 10, 300),))
# Cheaper to read, dearer to write.
MIXED = a_model("mixed", aliases=("mixed",), prices=(Prices(60, 10, 4000),))
# Cheaper but for what is cached, which no limit reserves by.
UNCACHED = a_model("uncached", aliases=("uncached",), prices=(Prices(200, 200, 300),))
PRICED = Catalogue([DEAR, CHEAP, MIXED, UNCACHED])
FALLBACK = TOP + '[models]\ndefault = "dear"\n[budget.fallback]\nmodel = '


def of(text: str) -> list[tuple[Scope, str, Measure, Period, int, bool, str]]:
    return [
        (
            each.scope,
            each.value,
            each.measure,
            each.period,
            each.amount,
            each.is_hard,
            each.contract,
        )
        for each in owned_limits(read_contract(TOP + text))
    ]


def problem(text: str, catalogue: Catalogue = PRICED) -> ContractError:
    with pytest.raises(ContractError) as caught:
        check_texts({"one.toml": text}, catalogue)
    return caught.value


def test_amounts_become_limits_of_the_workflow_and_of_each_session() -> None:
    text = '[budget]\nusd_per_day = "25.00"\ntokens_per_minute = 2_000\n'
    owner = "code-review"
    assert of(f"{text}session = {{ requests_per_day = 300, usd_per_month = 0.000000001 }}") == [
        (Scope.WORKFLOW, owner, Measure.TOKENS, Period.MINUTE, 2000, True, owner),
        (Scope.WORKFLOW, owner, Measure.NANOUSD, Period.DAY, 25 * NANO, True, owner),
        (Scope.SESSION, "*", Measure.REQUESTS, Period.DAY, 300, True, owner),
        (Scope.SESSION, "*", Measure.NANOUSD, Period.MONTH, 1, True, owner),
    ]


def test_limits_of_a_contract_that_only_observes_warn() -> None:
    ((*_, is_hard, _),) = of('mode = "observe"\n[budget]\nrequests_per_day = 5')
    assert is_hard is False


def test_dollars_are_the_same_as_text_and_as_number() -> None:
    texts = ["usd_per_day = '2.50'", "usd_per_day = 2.5", "usd_per_day = 2.500"]
    contracts = [read_contract(f"{TOP}[budget]\n{each}") for each in texts]
    assert contracts[0] == contracts[1] == contracts[2]


@pytest.mark.parametrize(
    ("budget", "key", "fault"),
    [
        ("usd_per_day = -1", "usd_per_day", "no amount of dollars"),
        ("usd_per_day = nan", "usd_per_day", "no amount of dollars"),
        ("usd_per_day = 1_000_000_001", "usd_per_day", "no amount of dollars"),
        ("usd_per_day = 9\nusd_per_month = 9", "usd_per_day", "`usd_per_month` is not more"),
        ("usd_per_day = 1\nusd_per_month = 31", "usd_per_month", "`usd_per_day` allows no more"),
        ("requests_per_minute = 1\nrequests_per_day = 1440", "requests_per_day", "allows no more"),
        ("tokens_per_minute = 9\ntokens_per_month = 5", "tokens_per_minute", "is not more"),
        ("usd_per_day = 5\nsession = { usd_per_day = 5 }", "session.usd_per_day", "all sessions"),
        ("session = { usd_per_day = 5, usd_per_month = 5 }", "session.usd_per_day", "not more"),
        ("session = {}", "session", "bounds nothing"),
    ],
)
def test_an_amount_that_never_counts_is_refused(budget: str, key: str, fault: str) -> None:
    error = problem(f"{TOP}[budget]\n{budget}")
    assert error.key == f"budget.{key}"
    assert fault in error.problem


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        # Cheaper in one price and dearer in another is dearer.
        (f'{FALLBACK}"mixed"', "budget.fallback.model", 'Write model = "@cf/x/cheap"'),
        (f'{FALLBACK}"dear"', "budget.fallback.model", "name a cheaper model"),
        (f'{FALLBACK}"chaep"', "budget.fallback.model", 'Write model = "cheap"'),
        (f'{FALLBACK}"auto"', "budget.fallback.model", "Name a model"),
        (f'{TOP}[models]\ndefault = "cheap"\n[budget.fallback]\nmodel = "dear"',
         "budget.fallback.model", "Take `fallback` out"),
        (f"{TOP}critical = true", "critical", "Write critical = false"),
        (f'{FALLBACK}"cheap"\nleft_share_min = 1.0', "budget.fallback.left_share_min",
         "Write left_share_min = 0.1"),
    ],
)  # fmt: skip
def test_a_fallback_that_saves_nothing_is_refused(text: str, key: str, advice: str) -> None:
    error = problem(text)
    assert error.key == key
    assert advice in error.advice


def test_a_fallback_needs_no_amount_because_limits_of_the_account_count_too() -> None:
    made = compiled(f'{FALLBACK}"cheap"', catalogue=PRICED)
    assert made.fallback is not None
    assert (made.fallback.model, made.fallback.left_share_min) == (CHEAP, 0.0)
    assert compiled(f'{FALLBACK}"uncached"', catalogue=PRICED).fallback is not None


def test_more_and_less_money_are_told_apart() -> None:
    def changed(before: str, after: str) -> list[str]:
        old, new = (
            {"w": read_contract(f"{TOP}[budget]\nrequests_per_day = 7\n{each}")}
            for each in (before, after)
        )
        (change,) = differences(old, new)
        return [each.means for each in change.differences]

    assert changed("usd_per_day = '9'", "usd_per_day = '10.00'") == ["looser"]
    assert changed("usd_per_day = '10'", "usd_per_day = '9.5'") == ["stricter"]
    assert changed("", "session = { tokens_per_day = 5 }") == ["stricter"]
    assert changed("tokens_per_minute = 100", "") == ["looser"]


def test_what_has_classes_falls_back_to_a_model_that_is_dearer_than_none() -> None:
    assert (
        "is dearer than"
        in problem(
            f'{TOP}[models]\ndefault = "dear"\nclass = {{ short = "cheap" }}\n'
            '[budget.fallback]\nmodel = "mixed"'
        ).problem
    )


def test_the_samples_without_prices_may_fall_back_to_each_other() -> None:
    made = compiled(f"{TOP}{MODELS}[budget.fallback]\nmodel = 'small'")
    assert made.fallback is not None
