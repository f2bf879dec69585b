"""Budgets that contracts own, at a gateway: limits, caps of sessions, and the cheaper model."""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import (
    CHAT,
    CHEAP,
    COMPOSED,
    FREE,
    NATIVE,
    REPLIES,
    Cell,
    CellFactory,
    chat_body,
    prompt,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.contracts.contract_cell import REFRESH, contract, decided, in_force

from penstock.store import Store

WHY = "x-penstock-model-why"
_CHAT = "/v1/chat/completions"
_SETTINGS = {
    **REFRESH,
    "metering.drain_seconds": 0.1,
    "admission.limits_refresh_seconds": 0.1,
    "admission.pots_survey_seconds": 0.1,
}
_DEAR = f'default = "{CHAT}"'
_NOTHING = 'usd_per_day = "0.000000001"'
_FREE = f'fallback = {{ model = "{FREE}" }}'
# Half of it is for the cheaper model.
_HALF = f'fallback = {{{{ model = "{CHEAP}", left_share_min = 0.5 }}}}'
EDGE = '[budget]\nusd_per_day = "{usd}"\n' + _HALF
CONTRACTS = (
    contract("three", "[budget]\nrequests_per_day = 3"),
    contract("capped", "[budget.session]\nrequests_per_day = 20"),
    contract("poor", f"[budget]\n{_NOTHING}\n{_FREE}", _DEAR),
    contract("vital", f"critical = true\n[budget]\n{_NOTHING}\n{_FREE}", _DEAR),
    contract("spent", f"[budget]\n{_NOTHING}", _DEAR),
    contract("watch", "mode = 'observe'\n[budget]\nrequests_per_day = 1"),
    contract("async", '[budget]\nusd_per_day = "0.0005"', _DEAR),
)


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open(_SETTINGS) as cell:
        cell.set_up(CHAT, CHEAP, COMPOSED, FREE, NATIVE, REPLIES)
        in_force(cell, *CONTRACTS, contract("edge", EDGE.format(usd="0.0022"), _DEAR))
        assert len(cell.run(owned)) == len(CONTRACTS) + 1
        yield cell


async def owned(store: Store) -> list[tuple[Any, ...]]:
    async with store.statement() as statement:
        return await statement.fetch(
            "select id, contract, scope, measure, period, amount, is_hard from limits"
            " where account is null and not is_removed order by id"
        )


def ask(
    cell: Cell, workflow: str, session: str = "", key: str = "", **fields: Any
) -> httpx.Response:
    headers = {"x-penstock-workflow": workflow, "x-session-id": session}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return cell.post(_CHAT, chat_body(CHAT, max_tokens=16, **fields), headers=headers)


def code_of(answer: httpx.Response) -> str:
    return "" if answer.status_code == 200 else str(answer.json()["error"]["code"])


def test_each_account_has_the_whole_budget_of_a_contract(cell: Cell) -> None:
    _, _, other = cell.add_account("other")
    assert [code_of(ask(cell, "three")) for _ in range(4)] == ["", "", "", "quota_spent"]
    refused = ask(cell, "three")
    assert "this account under the contract `three`" in refused.json()["error"]["message"]
    assert [code_of(ask(cell, "three", key=other)) for _ in range(4)] == ["", "", "", "quota_spent"]
    # Another workflow of the first account goes on.
    assert code_of(ask(cell, "none-such")) == ""
    [row] = decided(cell, refused.headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["reason"]) == ("budget", "deny", "quota_spent")
    assert (row["contract"], row["workflow"]) == ("three@1", "three")


def test_forty_agents_in_one_session_never_pass_its_cap(cell: Cell) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: ask(cell, "capped", session="one"), range(40)))
    codes = [code_of(answer) for answer in answers]
    assert codes.count("") == 20
    assert codes.count("quota_spent") == 20
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert "session `one` under the contract `capped`" in refused.json()["error"]["message"]
    [row] = decided(cell, refused.headers["x-request-id"])
    assert (row["kind"], row["verdict"]) == ("session_cap", "deny")
    # The next session is free, and so is a request that names none.
    assert code_of(ask(cell, "capped", session="two")) == ""
    assert code_of(ask(cell, "capped")) == ""


def _bodies(model: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """A request of each shape, and where it goes."""
    chat = {"model": model, "messages": prompt(), "max_tokens": 16}
    given = {"model": model, "input": prompt(), "max_output_tokens": 16}
    return {
        "chat": (_CHAT, chat),
        "completions": ("/v1/completions", {"model": model, "prompt": "hi", "max_tokens": 16}),
        "messages": ("/v1/messages", chat),
        "responses": ("/v1/responses", {**given, "store": False}),
        "stored": ("/v1/responses", given),
        "run": ("run", {"messages": prompt(), "max_tokens": 16}),
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("shape", list(_bodies(CHAT)))
def test_every_api_falls_back_to_the_cheaper_model(cell: Cell, shape: str, stream: bool) -> None:
    path, body = _bodies(CHAT)[shape]
    path = cell.path(f"run/{CHAT}") if path == "run" else path
    headers = {"x-penstock-workflow": "poor", "x-session-id": f"{shape} {stream}"}
    answer = cell.post(path, {**body, "stream": stream}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert (answer.headers["x-penstock-model"], answer.headers[WHY]) == (FREE, "fallback")
    request = answer.headers["x-request-id"]
    rows = {row["kind"]: row for row in decided(cell, request)}
    assert rows["fallback"]["subjects"] == [FREE]
    assert (rows["fallback"]["verdict"], rows["fallback"]["reason"]) == ("change", "budget_spent")
    eventually(lambda: cell.run(lambda store: _models(store, request)) == [(FREE, CHAT, 0)])


async def _models(store: Store, request: str) -> list[tuple[Any, ...]]:
    async with store.statement() as statement:
        return await statement.fetch(
            "select model, model_asked, charge_nanousd from usage_attempts where request = %s",
            (request,),
        )


def test_requests_without_a_conversation_are_no_session_that_stays(cell: Cell) -> None:
    path, body = _bodies(CHAT)["completions"]
    for _ in range(2):
        answer = cell.post(path, body, headers={"x-penstock-workflow": "poor"})
        rows = {row["kind"]: row for row in decided(cell, answer.headers["x-request-id"])}
        assert rows["fallback"]["reason"] == "budget_spent"


def test_a_critical_workflow_falls_back_only_where_its_caller_lets_it(cell: Cell) -> None:
    headers = {"x-penstock-workflow": "vital"}
    body = chat_body(CHAT, max_tokens=16)
    for given in ({}, {"x-penstock-critical": "1"}):
        assert code_of(cell.post(_CHAT, body, headers={**headers, **given})) == "budget_spent"
    answer = cell.post(_CHAT, body, headers={**headers, "x-penstock-critical": "0"})
    assert answer.headers[WHY] == "fallback"


def test_nothing_makes_a_workflow_critical_whose_contract_does_not_say_so(cell: Cell) -> None:
    headers = {"x-penstock-workflow": "poor", "x-penstock-critical": "1"}
    assert cell.post(_CHAT, chat_body(CHAT, max_tokens=16), headers=headers).headers[WHY]


def test_without_a_fallback_a_spent_budget_refuses(cell: Cell) -> None:
    refused = ask(cell, "spent")
    assert code_of(refused) == "budget_spent"
    [row] = decided(cell, refused.headers["x-request-id"])
    assert (row["kind"], row["reason"]) == ("budget", "budget_spent")


def test_a_request_that_the_cheaper_model_cannot_serve_is_refused(cell: Cell) -> None:
    # The catalogue gives it as many tokens of context as the other, less than this prompt has.
    long = [{"role": "user", "content": "word " * 90_000}]
    assert code_of(ask(cell, "poor", messages=long)) == "budget_spent"


def test_at_the_edge_every_answer_is_within_the_budget_and_no_session_flaps(cell: Cell) -> None:
    seen: dict[str, list[str]] = defaultdict(list)

    def agent(name: str) -> None:
        for _ in range(10):
            answer = ask(cell, "edge", session=name)
            assert answer.status_code == 200, answer.text
            seen[name].append(answer.headers.get(WHY, ""))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(agent, [f"agent-{number}" for number in range(20)]))
    whys = [why for each in seen.values() for why in each]
    assert len(whys) == 200
    assert 0 < whys.count("fallback") < 200
    for each in seen.values():
        # Once cheap, always cheap.
        assert each == sorted(each)
    eventually(lambda: cell.run(_spent)[0] == 200)
    _, spent, models = cell.run(_spent)
    assert spent <= 2_200_000
    assert set(models) == {CHAT, CHEAP}
    # More money does not bring a session back before its time, and a new one has the dear model.
    in_force(cell, *CONTRACTS, contract("edge", EDGE.format(usd="25.00"), _DEAR))
    eventually(lambda: ask(cell, "edge", session="new").headers.get(WHY) is None)
    fallen = next(name for name, each in seen.items() if each[-1] == "fallback")
    answer = ask(cell, "edge", session=fallen)
    assert answer.headers[WHY] == "fallback"
    rows = {row["kind"]: row for row in decided(cell, answer.headers["x-request-id"])}
    assert rows["fallback"]["reason"] == "held"


async def _spent(store: Store) -> tuple[int, int, list[str]]:
    async with store.statement() as statement:
        row = await statement.fetch_one(
            "select count(*), coalesce(sum(charge_nanousd), 0)::bigint, array_agg(distinct model)"
            " from usage_attempts where starts_with(contract, 'edge@')"
        )
    assert row is not None
    return row[0], row[1], row[2]


def test_a_contract_that_only_observes_refuses_nothing_and_logs_what_it_would(cell: Cell) -> None:
    answers: list[httpx.Response] = []

    def is_passed() -> bool:
        answers.append(ask(cell, "watch"))
        return "x-penstock-limit-warning" in answers[-1].headers

    eventually(is_passed, 20)
    assert {answer.status_code for answer in answers} == {200}
    [row] = decided(cell, answers[-1].headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["is_observed"]) == ("budget", "deny", True)
    assert row["reason"] == "requests_per_day"


def test_jobs_hold_the_money_of_their_contract(cell: Cell) -> None:
    headers = {"x-penstock-workflow": "async", "prefer": "respond-async"}
    body = chat_body(CHAT, max_tokens=200)
    codes = [cell.post(_CHAT, body, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in codes] == [202, 429, 429]
    [row] = decided(cell, codes[-1].headers["x-request-id"])
    assert (row["kind"], row["verdict"], row["contract"]) == ("budget", "deny", "async@1")


def test_limits_follow_the_sets_and_keep_their_counts(cells: CellFactory) -> None:
    with cells.open(_SETTINGS) as cell:
        cell.set_up(CHAT)
        in_force(cell, CONTRACTS[0])
        [(id, *rest)] = cell.run(owned)
        assert rest == ["three", "workflow", "requests", "day", 3, True]
        eventually(lambda: "x-ratelimit-limit-requests" in ask(cell, "three").headers)
        while ask(cell, "three").status_code == 200:
            pass
        # Another amount is the same limit, and what was used of it counts.
        in_force(cell, contract("three", "[budget]\nrequests_per_day = 4"))
        assert cell.run(owned) == [(id, "three", "workflow", "requests", "day", 4, True)]
        eventually(lambda: "of 4 requests" in ask(cell, "three").text)
        # Without the budget nothing bounds; going back does not begin anew.
        in_force(cell, contract("three"))
        assert cell.run(owned) == []
        eventually(lambda: ask(cell, "three").status_code == 200)
        in_force(cell, CONTRACTS[0])
        assert [each[0] for each in cell.run(owned)] == [id]
        eventually(lambda: ask(cell, "three").status_code == 429)
