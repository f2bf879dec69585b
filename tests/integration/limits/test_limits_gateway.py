"""Limits as callers meet them: which one, what is left, when to come back, in both shapes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.limited_accounts import ask, first_with_limits, set_limit

from penstock.records.limit import Measure, Period
from penstock.store import Store

if TYPE_CHECKING:
    import httpx


@pytest.fixture(scope="module")
def limited(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({"admission.limits_refresh_seconds": 0.1}) as cell:
        cell.set_up(CHAT)
        yield cell


class _Account(msgspec.Struct):
    id: str
    name: str


@pytest.mark.parametrize(
    ("measure", "period", "code", "number"),
    [
        (Measure.REQUESTS, Period.MINUTE, "rate_limited", 3021),
        (Measure.TOKENS, Period.MINUTE, "rate_limited", 3021),
        (Measure.REQUESTS, Period.DAY, "quota_spent", 3036),
        (Measure.TOKENS, Period.MONTH, "quota_spent", 3036),
        (Measure.NANOUSD, Period.DAY, "budget_spent", 9036),
        (Measure.NANOUSD, Period.MONTH, "budget_spent", 9036),
    ],
)
def test_refusal_says_which_limit_it_was_in_both_shapes(
    limited: Cell, measure: Measure, period: Period, code: str, number: int
) -> None:
    secret = set_limit(limited, measure, period, 0)
    eventually(lambda: ask(limited, secret).status_code == 429, 10)
    refused = ask(limited, secret)
    assert refused.json()["error"]["code"] == code
    assert refused.json()["error"]["type"] == "rate_limit_error"
    for word in (period, "account"):
        assert word in refused.json()["error"]["message"]
    own = next(a.id for a in limited.run(_accounts) if a.name == f"{measure} {period}")
    path = f"/client/v4/accounts/{own}/ai/v1/chat/completions"
    workers_ai = ask(limited, secret, path)
    assert workers_ai.status_code == 429
    assert workers_ai.json()["errors"][0]["code"] == number
    assert workers_ai.json()["success"] is False


async def _accounts(store: Store) -> list[_Account]:
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select id, name from accounts order by created_at desc")
    return [_Account(*row) for row in rows]


def test_requests_are_counted_down_in_the_usual_headers(limited: Cell) -> None:
    secret = set_limit(limited, Measure.REQUESTS, Period.DAY, 100)
    first = first_with_limits(limited, secret)
    second = ask(limited, secret)
    assert first.headers["x-ratelimit-limit-requests"] == "100"
    left = [int(a.headers["x-ratelimit-remaining-requests"]) for a in (first, second)]
    assert left[0] - left[1] == 1
    assert first.headers["x-ratelimit-reset-requests"].endswith("s")
    assert not any(name.startswith("x-ratelimit") for name in limited.chat(chat_body()).headers)


def test_exactly_as_many_as_the_limit_are_served(limited: Cell) -> None:
    secret = set_limit(limited, Measure.REQUESTS, Period.MONTH, 7)
    first = first_with_limits(limited, secret)
    left = int(first.headers["x-ratelimit-remaining-requests"])
    statuses = [ask(limited, secret).status_code for _ in range(left + 5)]
    assert statuses == [200] * left + [429] * 5


def test_workflow_and_session_have_limits_of_their_own(limited: Cell) -> None:
    of = {"scope": "session", "value": "*"}
    secret = set_limit(limited, Measure.REQUESTS, Period.MONTH, 1, **of)
    eventually(lambda: ask(limited, secret, x_session_id="a").status_code == 429, 10)
    assert ask(limited, secret, x_session_id="b").status_code == 200
    assert ask(limited, secret, x_session_id="b").status_code == 429
    assert ask(limited, secret).status_code == 200


def test_soft_limit_warns_and_never_refuses(limited: Cell) -> None:
    secret = set_limit(limited, Measure.REQUESTS, Period.MONTH, 1, is_hard=False)
    answers: list[httpx.Response] = []

    def is_warned() -> bool:
        answers.append(ask(limited, secret))
        return "x-penstock-limit-warning" in answers[-1].headers

    eventually(is_warned, 20)
    assert {answer.status_code for answer in answers} == {200}
    assert answers[-1].headers["x-penstock-limit-warning"] == "account requests/month"


def test_refused_requests_leave_a_count_and_no_row(limited: Cell) -> None:
    secret = set_limit(limited, Measure.NANOUSD, Period.MONTH, 0)
    eventually(lambda: ask(limited, secret).status_code == 429, 10)

    def counted() -> bool:
        page = limited.get("/v1/usage?group_by=key", headers={"authorization": f"Bearer {secret}"})
        rows = page.json()["rows"]
        return any(row["refusals"] and row["refusals"].get("budget_spent") for row in rows)

    eventually(counted, 10)
