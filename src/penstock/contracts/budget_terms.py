"""Makes limits of a contract's `[budget]`, and refuses amounts that never count. Pure."""

from decimal import Decimal
from typing import Final

import msgspec

from penstock.catalogue import Catalogue
from penstock.contracts.advice import EXAMPLES
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import Amounts, Budget, Contract, Fallback, Mode
from penstock.contracts.named_model import find_model
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.model import Model
from penstock.records.price_book import Prices

_EACH: Final = "*"
_NO_ACCOUNT: Final = AccountId("")
_NANO: Final = 10**9
_USD_MAX: Final = 10**9
_MEASURES: Final = {"requests": Measure.REQUESTS, "tokens": Measure.TOKENS, "usd": Measure.NANOUSD}
_PERIODS: Final = ("minute", "day", "month")
# How many of the shorter windows a longer one has at most.
_WINDOWS: Final = {
    ("minute", "day"): 24 * 60,
    ("day", "month"): 31,
    ("minute", "month"): 31 * 24 * 60,
}


class FallbackTerms(msgspec.Struct, frozen=True):
    """The model that a contract falls back to, and when."""

    model: Model
    left_share_min: float


def owned_limits(contract: Contract) -> list[Limit]:
    """Return the limits that a contract owns; one that only observes has limits that warn."""
    budget = contract.budget
    if budget is None:
        return []
    found = _limits(contract, budget, Scope.WORKFLOW, contract.name)
    if budget.session is not None:
        found += _limits(contract, budget.session, Scope.SESSION, _EACH)
    return found


def fallback_of(contract: Contract, catalogue: Catalogue) -> FallbackTerms | None:
    terms = None if contract.budget is None else contract.budget.fallback
    if terms is None:
        return None
    model = find_model(terms.model, "budget.fallback.model", catalogue)
    return FallbackTerms(model, terms.left_share_min)


def check_budget(contract: Contract, models: list[Model], catalogue: Catalogue) -> None:
    """Refuse amounts that are never reached, and a fallback that saves nothing."""
    budget = contract.budget
    fallback = None if budget is None else budget.fallback
    if contract.critical and fallback is None:
        raise ContractError(
            "says which requests fall back, and there is no `budget.fallback`",
            advice="Write critical = false",
            key="critical",
        )
    if budget is None:
        return
    if not _given(budget) and budget.session is None and fallback is None:
        raise ContractError("bounds nothing", advice=f"Write {EXAMPLES['budget']}", key="budget")
    _check_amounts(budget, "budget")
    if budget.session is not None:
        _check_session(budget, budget.session)
    if fallback is not None:
        _check_fallback(fallback, models, catalogue)


def _limits(contract: Contract, amounts: Amounts, scope: Scope, value: str) -> list[Limit]:
    is_hard = contract.mode is not Mode.OBSERVE
    found = []
    for key, amount in _given(amounts).items():
        measure, period = _MEASURES[key.partition("_")[0]], Period(key.rpartition("_")[2])
        whole = int(amount * _NANO) if measure is Measure.NANOUSD else int(amount)
        found.append(
            Limit(0, _NO_ACCOUNT, scope, value, measure, period, whole, is_hard, contract.name)
        )
    return found


def _given(amounts: Amounts) -> dict[str, Decimal]:
    """Return the amounts that are given, by their keys."""
    found = {}
    for field in msgspec.structs.fields(Amounts):
        amount = getattr(amounts, field.name)
        if amount is not None:
            found[field.name] = Decimal(amount)
    return found


def _check_amounts(amounts: Amounts, table: str) -> None:
    given = _given(amounts)
    for key, amount in given.items():
        if key.startswith("usd"):
            _check_dollars(amount, f"{table}.{key}")
    for measure in _MEASURES:
        for (short, long), windows in _WINDOWS.items():
            few, many = f"{measure}_per_{short}", f"{measure}_per_{long}"
            if few not in given or many not in given:
                continue
            if given[few] >= given[many]:
                fault, key = f"is never reached: `{many}` is not more", few
            elif given[few] * windows <= given[many]:
                fault, key = f"is never reached: `{few}` allows no more in a {long}", many
            else:
                continue
            raise ContractError(fault, advice="Take it out", key=f"{table}.{key}")


def _check_dollars(amount: Decimal, key: str) -> None:
    is_exact = amount.is_finite() and amount * _NANO == int(amount * _NANO)
    if not is_exact or not 0 < amount <= _USD_MAX:
        last = key.rpartition(".")[2]
        raise ContractError(
            f"is no amount of dollars above 0, up to {_USD_MAX}, with at most 9 decimals",
            advice=f'Write {last} = "25.00"',
            key=key,
        )


def _check_session(budget: Budget, session: Amounts) -> None:
    given, whole = _given(session), _given(budget)
    if not given:
        right = EXAMPLES["budget.session"]
        raise ContractError("bounds nothing", advice=f"Write {right}", key="budget.session")
    _check_amounts(session, "budget.session")
    for key, amount in given.items():
        if key in whole and amount >= whole[key]:
            half = whole[key] / 2
            right = f'"{half.normalize():f}"' if key.startswith("usd") else str(int(half) or 1)
            raise ContractError(
                f"is never reached: all sessions together have {whole[key]:f}",
                advice=f"Write {key} = {right}",
                key=f"budget.session.{key}",
            )


def _check_fallback(fallback: Fallback, models: list[Model], catalogue: Catalogue) -> None:
    key = "budget.fallback.model"
    model = find_model(fallback.model, key, catalogue)
    others = [each for each in models if each is not model]
    if models and not others:
        raise ContractError(
            f"{model.id} is the only model of this contract",
            advice="Take `fallback` out, or name a cheaper model",
            key=key,
        )
    for other in others:
        if _is_dearer(model.prices[-1], other.prices[-1]):
            cheaper = _cheaper(models, catalogue)
            meant = f'Write model = "{cheaper}"' if cheaper else "Take `fallback` out"
            raise ContractError(f"{model.id} is dearer than {other.id}", advice=meant, key=key)


def _is_dearer(one: Prices, other: Prices) -> bool:
    """Return whether a request may cost more by the first row of a price book, nothing cached."""
    return any(mine > its for mine, its in zip(_live(one), _live(other), strict=True))


def _live(prices: Prices) -> tuple[int, int]:
    """Return what limits reserve of live requests by: only these fall back."""
    input, output = prices.input_nanousd_per_mtok, prices.output_nanousd_per_mtok
    return input * prices.now_bp, output * prices.now_bp


def _cheaper(models: list[Model], catalogue: Catalogue) -> str:
    """Return a model that is dearer than none of these; "" if there is none."""
    for model in catalogue.models:
        dearer = [each for each in models if _is_dearer(model.prices[-1], each.prices[-1])]
        if not dearer and [model] != models:
            return model.id
    return ""
