"""Limits, requests and demands for the tests of this folder."""

import asyncio
from typing import Any

from penstock.admission.division import Demand
from penstock.admission.hold import HeldAmount
from penstock.admission.window_balance import Reading, WindowBalance
from penstock.admission.windows import window_of
from penstock.records.account import AccountId, KeyId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.request import InferenceRequest, RequestId
from penstock.testing.sample_request import sample_request

NOW = 1_800_000_030.0
ACCOUNT = AccountId("a" * 32)
MODEL = Model(ModelId("m"), Family.OPENAI, 1000, Recipe(("x",)))

_loop = asyncio.new_event_loop()
_loop.close()


def a_limit(**fields: Any) -> Limit:
    """100 tokens a day for an account, but for what is said."""
    given = {
        "id": 1, "account": ACCOUNT, "scope": Scope.ACCOUNT, "value": "",
        "measure": Measure.TOKENS, "period": Period.DAY, "amount": 100, **fields,
    }  # fmt: skip
    return Limit(**given)


def a_request(**fields: Any) -> InferenceRequest:
    given = {
        "id": RequestId("r"), "account": ACCOUNT, "key": KeyId("k"), "model": MODEL, "body": {},
        "is_stream": False, "cache_salt": "", "asked_at": NOW, **fields,
    }  # fmt: skip
    return sample_request(**given)


def a_balance(limit: Limit | None = None, value: str = "", **state: Any) -> WindowBalance:
    limit = limit or a_limit()
    balance = WindowBalance(limit, value, window_of(limit.period, NOW))
    for name, number in state.items():
        setattr(balance, name, number)
    return balance


def a_demand(*amounts: tuple[WindowBalance, int]) -> Demand:
    """One whose answer nobody waits for."""
    return Demand(tuple(HeldAmount(*each) for each in amounts), asyncio.Future(loop=_loop))


def a_reading(**fields: Any) -> Reading:
    """Of a balance of 100 that nobody has touched, but for what is said."""
    given = {
        "amount": 100, "base": 0, "charged": 0, "spent": 0, "own_granted": 0, "own_spent": 0,
        **fields,
    }  # fmt: skip
    return Reading(**given)
