"""Two periods compared: parts add up exactly, one cause alone gets its change, swapping negates."""

import random
from itertools import permutations
from typing import Any

import msgspec
import pytest

from penstock.metering.reports.difference import FACTORS, PeriodUse, difference
from penstock.metering.reports.difference_facts import why
from penstock.metering.reports.model_use import ModelTier, TokenSums, merged, model_use
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.wire.resources.usage_difference import ChangeParts

CHEAP = Price(600_000_000, 150_000_000, 3_000_000_000)
DEAR = Price(2_500_000_000, 250_000_000, 12_000_000_000)
PRICES = (CHEAP, DEAR, Price(333_333_333, 33_333_333, 777_777_777, 5_000), Price(), None)
MODELS: tuple[ModelTier, ...] = (("@cf/a/one", "now"), ("@cf/a/one", "flex"), ("@cf/b/two", "now"))
# What each request of the plain period is like.
PLAIN: dict[str, Any] = {
    "requests": 1000, "attempts": 1000, "prompt": 8000, "hit": 0.9, "output": 300,
    "price": CHEAP, "model": MODELS[0],
}  # fmt: skip


def period(**facts: Any) -> PeriodUse:
    """A period of like requests of one model, charged by the list."""
    known = PLAIN | facts
    attempts, price = known["attempts"], known["price"]
    prompt, output = attempts * known["prompt"], attempts * known["output"]
    cached = round(prompt * known["hit"])
    charge = cost_nanousd(Usage(prompt, output, cached), price)
    sums = TokenSums(attempts, prompt, prompt, cached, output, charge)
    return PeriodUse(known["requests"], {known["model"]: model_use(sums, price)})


def parts_of(before: PeriodUse, after: PeriodUse) -> dict[str, int]:
    return msgspec.structs.asdict(difference(before, after))


CAUSES: dict[str, dict[str, Any]] = {
    "volume": {"requests": 2000, "attempts": 2000},
    "retries": {"attempts": 1300},
    "models": {"model": MODELS[2], "price": DEAR},
    "prompts": {"prompt": 10_400},
    "cache": {"hit": 0.5},
    "answers": {"output": 600},
    "price": {"price": Price(660_000_000, 165_000_000, 3_300_000_000)},
}


@pytest.mark.parametrize("cause", FACTORS)
def test_one_cause_alone_gets_its_change(cause: str) -> None:
    before, after = period(), period(**CAUSES[cause])
    change = after.charge_nanousd - before.charge_nanousd
    assert abs(change) > 10**8
    found = parts_of(before, after)
    assert found[cause] / change >= 0.97
    assert sum(found.values()) == change


@pytest.mark.parametrize("cause", FACTORS)
def test_one_cause_alone_gets_its_change_among_other_models(cause: str) -> None:
    beside = period(model=MODELS[1], price=DEAR, prompt=3000, hit=0.2).models
    half = {"requests": 1000, "attempts": 1000}
    before, after = (
        PeriodUse(use.requests + 1000, {**use.models, **beside})
        for use in (period(**half), period(**CAUSES[cause]))
    )
    change = after.charge_nanousd - before.charge_nanousd
    found = parts_of(before, after)
    if cause in {"volume", "retries"}:
        # More of one model alone is another mix too, so two parts share the change.
        assert (found[cause] + found["models"]) / change >= 0.97
    else:
        assert found[cause] / change >= 0.97


def test_what_was_not_charged_is_a_part_of_its_own() -> None:
    before = period()
    ((name, use),) = before.models.items()
    unpaid = msgspec.structs.replace(use, charge_nanousd=use.charge_nanousd - 5)
    parts = difference(before, PeriodUse(1000, {name: unpaid}))
    assert parts == ChangeParts(uncharged=-5)


def test_new_and_gone_groups_are_volume_and_new_models_are_models() -> None:
    nothing, some = PeriodUse(0, {}), period()
    charge = some.charge_nanousd
    assert difference(nothing, some) == ChangeParts(volume=charge)
    assert difference(some, nothing) == ChangeParts(volume=-charge)
    assert difference(nothing, nothing) == ChangeParts()
    other = period(model=MODELS[2], price=DEAR, prompt=100, output=9, hit=0)
    swapped = parts_of(some, other)
    assert swapped == {**dict.fromkeys(swapped, 0), "models": other.charge_nanousd - charge}


def test_changing_the_prices_within_a_period_is_price() -> None:
    """A period whose second half is dearer has the mean of its prices."""
    cheap, dear = (period(price=price).models[MODELS[0]] for price in (CHEAP, DEAR))
    half = PeriodUse(2000, {MODELS[0]: merged([cheap, dear])})
    before = period(requests=2000, attempts=2000)
    change = half.charge_nanousd - before.charge_nanousd
    found = parts_of(before, half)
    assert found["price"] == change > 0


def test_model_without_a_price_is_counted_by_its_charges() -> None:
    use = model_use(TokenSums(10, 1000, 1000, 500, 100, 12_345), None)
    assert (use.list_units, use.is_listed) == (12_345 * 10**10, False)
    twice = model_use(TokenSums(20, 2000, 2000, 1000, 200, 24_690), None)
    before, after = (PeriodUse(each.attempts, {MODELS[0]: each}) for each in (use, twice))
    assert difference(before, after) == ChangeParts(volume=12_345)
    free = model_use(TokenSums(1, 0, 0, 0, 0, 0), None)
    assert free.list_units == 0


def made_up(random_: random.Random) -> PeriodUse:
    """A period with zeros, models that are absent, odd prices and amounts up to ten millions."""
    models = {}
    size = 10 ** random_.randrange(8)
    for name in MODELS:
        if random_.random() < 0.3:
            continue
        attempts = random_.choice((0, 1, random_.randrange(1, 1 + size)))
        prompt = attempts * random_.choice((0, 17, random_.randrange(200_000)))
        known = random_.randint(0, prompt)
        output = attempts * random_.randrange(5000)
        sums = TokenSums(attempts, prompt, known, random_.randint(0, known), output, 0)
        price = random_.choice(PRICES)
        listed = model_use(sums, price)
        charge = random_.choice((0, listed.list_units // 10**10, random_.randrange(10**9)))
        models[name] = model_use(sums._replace(charge_nanousd=charge), price)
    total = sum(use.attempts for use in models.values())
    return PeriodUse(random_.choice((total, random_.randint(0, total))), models)


def test_parts_add_up_in_ten_thousand_pairs() -> None:
    random_ = random.Random(7)
    moved = dict.fromkeys(ChangeParts.__struct_fields__, 0)
    for _ in range(10_000):
        before, after = made_up(random_), made_up(random_)
        parts = parts_of(before, after)
        change = after.charge_nanousd - before.charge_nanousd
        assert sum(parts.values()) == change
        assert sum(parts.values()) - parts["uncharged"] in _about(before, after)
        assert "\n" not in why(before, after, ChangeParts(**parts))
        for name, part in parts.items():
            moved[name] += part != 0
    # The cases reach every part.
    assert min(moved.values()) > 1000, moved


def test_swapped_periods_negate_every_part() -> None:
    random_ = random.Random(11)
    for _ in range(2000):
        before, after = made_up(random_), made_up(random_)
        parts, back = parts_of(before, after), parts_of(after, before)
        assert back == {name: -part for name, part in parts.items()}


def _about(before: PeriodUse, after: PeriodUse) -> range:
    """The change of the list cost; with no part to put a nano-dollar of rounding, one beside it."""
    listed = after.list_nanousd - before.list_nanousd
    return range(listed - 1, listed + 2)


def test_two_causes_at_once_share_what_they_do_together() -> None:
    """Worked by hand: 1 to 2 requests at $1 to $3; each gets its mean over both orders."""
    one, three = Price(10**15), Price(3 * 10**15)
    use = {"prompt": 1, "hit": 0, "output": 0}
    before = period(requests=1, attempts=1, price=one, **use)
    after = period(requests=2, attempts=2, price=three, **use)
    dollar = 10**9
    assert before.charge_nanousd == dollar
    assert difference(before, after) == ChangeParts(volume=2 * dollar, price=3 * dollar)


def test_parts_are_the_mean_over_all_orders() -> None:
    """The definition itself, word for word: 5,040 orders in which the factors could change."""
    random_ = random.Random(13)
    for _ in range(5):
        before, after = well_used(random_), well_used(random_)
        expected = dict.fromkeys(FACTORS, 0.0)
        costs: dict[frozenset[str], float] = {}
        orders = list(permutations(FACTORS))
        for order in orders:
            changed = frozenset[str]()
            for factor in order:
                grown = changed | {factor}
                for each in (changed, grown):
                    if each not in costs:
                        costs[each] = list_cost(before, after, each)
                expected[factor] += (costs[grown] - costs[changed]) / len(orders)
                changed = grown
        found = parts_of(before, after)
        for factor in FACTORS:
            # One of them has the nano-dollars that rounding leaves.
            assert found[factor] == pytest.approx(expected[factor], abs=len(FACTORS))


def well_used(random_: random.Random) -> PeriodUse:
    """A period that uses every model, so that each factor is the period's own."""
    models = {}
    for name in MODELS:
        attempts = random_.randrange(100, 1000)
        prompt = attempts * random_.randrange(1000, 20_000)
        sums = TokenSums(attempts, prompt, prompt, prompt // random_.randrange(2, 9), 9999, 0)
        models[name] = model_use(sums, random_.choice((CHEAP, DEAR)))
    return PeriodUse(random_.randrange(500, 1000), models)


def list_cost(before: PeriodUse, after: PeriodUse, changed: frozenset[str]) -> float:
    """The product of the module's docstring, with some factors of the later period."""

    def of(factor: str) -> PeriodUse:
        return after if factor in changed else before

    total = 0.0
    for name in MODELS:
        mix, prompts, cache, answers, price = (
            of(factor).models[name] for factor in ("models", "prompts", "cache", "answers", "price")
        )
        uncached, cached, output = price.token_prices
        hit = cache.cached_tokens / cache.prompt_tokens
        total += (mix.attempts / of("models").attempts) * (
            prompts.prompt_tokens / prompts.attempts * (hit * cached + (1 - hit) * uncached)
            + answers.output_tokens / answers.attempts * output
        )
    return of("volume").requests * of("retries").attempts / of("retries").requests * total
