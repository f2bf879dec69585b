"""A gateway under contracts: models, bounds and headers, on every API and for jobs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.cells.batch_cell import line, sdk, start_batch
from tests.integration.cells.gateway_answers import (
    check_envelope,
    check_openai,
    check_request_id,
)
from tests.integration.cells.gateway_cell import (
    CHAT,
    COMPOSED,
    NATIVE,
    PAIR,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    prompt,
)
from tests.integration.cells.gateway_process import GatewayProcess, eventually
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.contracts.contract_cell import REFRESH, apply_texts, contract, in_force

from penstock.policy import KeyBook
from penstock.records.account import Role
from penstock.records.job import Ticket
from penstock.store import Store
from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_REVIEW = contract(
    "review",
    "output = { tokens_max = 50, choices_max = 1 }\nprompt = { tokens_max = 2000 }",
    f"""
default = "{CHAT}"
class = {{ label = "{PAIR}", native = "{NATIVE}", other = "{COMPOSED}" }}
rule = [{{ class = "label", when = {{ tools = 0, output_tokens_max = 8 }} }}]
""",
)
_WATCH = contract(
    "watch",
    'mode = "observe"\noutput = { tokens_max = 50 }',
    f'default = "{PAIR}"\nasked = "refuse"',
)
_OVERRIDE = contract("override", "", f'default = "{PAIR}"\nasked = "override"')
_DEFAULT = contract("default", "output = { tokens_max = 60 }")
_LABELS = contract("labels")


@pytest.fixture(scope="module")
def engine_of(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({**REFRESH, "ingress.prompt_bytes_per_token": 4}) as cell:
        engine = cell.set_up(CHAT, PAIR, PLAIN, NATIVE, COMPOSED)
        in_force(cell, _REVIEW, _WATCH, _OVERRIDE, _DEFAULT, _LABELS)
        yield cell, engine


@pytest.fixture
def cell(engine_of: tuple[Cell, ScriptedEngine]) -> Cell:
    return engine_of[0]


@pytest.fixture
def engine(engine_of: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return engine_of[1]


def _ask(cell: Cell, workflow: str, model: str = "auto", **fields: Any) -> Any:
    body = chat_body(model, **fields)
    return cell.post(_V1, body, headers={"x-penstock-workflow": workflow})


def _sent(engine: ScriptedEngine) -> dict[str, Any]:
    last = engine.state().last_request
    assert last is not None
    found: dict[str, Any] = json.loads(last["body"])
    return found


def test_answers_name_the_contract_and_what_it_chose(cell: Cell) -> None:
    answer = _ask(cell, "review", max_tokens=8)
    assert answer.status_code == 200
    told = {
        name: answer.headers.get(f"x-penstock-{name}") for name in ("contract", "task", "model")
    }
    assert told == {"contract": "review@1", "task": "label", "model": PAIR}
    assert answer.headers["x-penstock-model-why"] == "class"
    assert "x-penstock-applied" not in answer.headers
    row = rows_of(cell, check_request_id(answer.headers))[0]
    labels = (row["model"], row["contract"], row["task"], row["model_asked"], row["workflow"])
    assert labels == (PAIR, "review@1", "label", "auto", "review")
    line = cell.gateway.request_line(answer.headers["x-request-id"])
    assert (line["contract"], line["task"], line["model_asked"]) == ("review@1", "label", "auto")


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_bounded_on_every_api(
    cell: Cell, engine: ScriptedEngine, stream: bool
) -> None:
    headers = {"x-penstock-workflow": "review"}
    messages = prompt()
    chat, longest = {"model": CHAT, "messages": messages}, {"max_completion_tokens": 900}
    text = {"input": "Once", "store": False}
    asked: list[tuple[str, dict[str, Any], str]] = [
        (_V1, chat, "max_tokens"),
        (_V1, {**chat, **longest}, "max_completion_tokens"),
        ("/v1/completions", {"model": CHAT, "prompt": "Once", "max_tokens": 900}, "max_tokens"),
        ("/v1/messages", {**chat, "max_tokens": 900}, "max_tokens"),
        ("/v1/responses", {"model": CHAT, **text}, "max_output_tokens"),
        ("/v1/responses", {"model": COMPOSED, **text}, "max_completion_tokens"),
        (cell.path(f"run/{NATIVE}"), {"messages": messages}, "max_tokens"),
        (cell.path("run"), {"model": CHAT, "input": {"messages": messages}}, "max_tokens"),
    ]
    for path, body, field in asked:
        answer = cell.post(path, {**body, "stream": stream}, headers=headers)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["x-penstock-applied"] == "output=50", path
        assert answer.headers["x-penstock-contract"] == "review@1"
        assert _sent(engine)[field] == 50, path


def test_a_shorter_answer_is_left_as_it_is(cell: Cell, engine: ScriptedEngine) -> None:
    answer = _ask(cell, "review", CHAT, max_tokens=20)
    assert "x-penstock-applied" not in answer.headers
    assert _sent(engine)["max_tokens"] == 20


def test_choices_are_lowered(cell: Cell, engine: ScriptedEngine) -> None:
    answer = _ask(cell, "review", CHAT, max_tokens=20, n=3)
    assert answer.headers["x-penstock-applied"] == "choices=1"
    assert len(answer.json()["choices"]) == 1
    assert _sent(engine)["n"] == 1


def test_a_long_prompt_is_refused_before_it_runs(cell: Cell, engine: ScriptedEngine) -> None:
    before = engine.state().requests
    body = {"model": CHAT, "messages": prompt(text="word " * 2000)}
    headers = {"x-penstock-workflow": "review"}
    said = check_openai(cell.post(_V1, body, headers=headers), 400, "prompt_over_contract")
    assert "review@1" in said
    assert "2000" in said
    check_envelope(cell.post(cell.path(f"run/{CHAT}"), body, headers=headers), 400, 9042)
    assert engine.state().requests == before


def test_a_model_that_the_contract_does_not_name_is_refused(cell: Cell) -> None:
    said = check_openai(_ask(cell, "review", PLAIN), 403, "model_not_allowed")
    assert "auto" in said
    assert CHAT in said
    assert _ask(cell, "review", CHAT).status_code == 200


def test_an_override_serves_its_own_model(cell: Cell) -> None:
    answer = _ask(cell, "override", PLAIN)
    assert answer.headers["x-penstock-model"] == PAIR
    assert answer.headers["x-penstock-model-why"] == "override"
    assert rows_of(cell, check_request_id(answer.headers))[0]["model_asked"] == PLAIN


def test_a_caller_names_its_task_by_header_and_by_metadata(cell: Cell) -> None:
    asked = [
        ({"x-penstock-workflow": "review", "x-penstock-task": "label"}, {}),
        ({"cf-aig-metadata": '{"workflow":"review","task":"label"}'}, {}),
        ({}, {"metadata": {"workflow": "review", "task": "label"}}),
    ]
    for headers, fields in asked:
        answer = cell.post(_V1, chat_body("auto", **fields), headers=headers)
        assert (answer.headers["x-penstock-task"], answer.status_code) == ("label", 200)


def test_an_unknown_task_is_counted(cell: Cell) -> None:
    unknown = "penstock_contract_unknown_total"
    before = cell.gateway.metric(unknown)
    headers = {"x-penstock-workflow": "review", "x-penstock-task": "poetry"}
    answer = cell.post(_V1, chat_body("auto"), headers=headers)
    assert answer.headers["x-penstock-task"] == "default"
    eventually(lambda: cell.gateway.metric(unknown) == before + 1)


def test_an_observing_contract_changes_nothing_and_counts(
    cell: Cell, engine: ScriptedEngine
) -> None:
    labels = ('contract="watch"', 'kind="output"', 'mode="observe"')
    before = cell.gateway.metric("penstock_contract_effects_total", *labels)
    answer = _ask(cell, "watch", PLAIN, max_tokens=900)
    assert answer.status_code == 200
    assert answer.headers["x-penstock-contract"] == "watch@1; observe"
    assert "x-penstock-applied" not in answer.headers
    assert _sent(engine)["max_tokens"] == 900
    eventually(
        lambda: cell.gateway.metric("penstock_contract_effects_total", *labels) == before + 1
    )


def test_lines_of_a_batch_are_decided_and_counted(cell: Cell) -> None:
    labels = ('contract="watch"', 'kind="output"', 'mode="observe"')
    before = cell.gateway.metric("penstock_contract_effects_total", *labels)
    body = {**chat_body(CHAT, max_tokens=900), "metadata": {"workflow": "watch"}}
    start_batch(sdk(cell), line("a", body=body), line("b", body=body))
    eventually(
        lambda: cell.gateway.metric("penstock_contract_effects_total", *labels) == before + 2
    )


def test_the_default_binds_other_workflows_and_none(cell: Cell) -> None:
    for headers in ({}, {"x-penstock-workflow": "never-heard-of"}):
        answer = cell.post(_V1, chat_body(), headers=headers)
        assert answer.headers["x-penstock-contract"] == "default@1"
        assert answer.headers["x-penstock-applied"] == "output=60"


def test_a_contract_of_labels_changes_nothing(cell: Cell, engine: ScriptedEngine) -> None:
    answer = _ask(cell, "labels", CHAT, max_tokens=900)
    assert answer.headers["x-penstock-contract"] == "labels@1"
    assert _sent(engine)["max_tokens"] == 900
    check_openai(_ask(cell, "labels", "auto"), 404, "model_not_found")


def test_a_bound_key_has_its_contract_whatever_it_says(cell: Cell) -> None:
    async def bind(store: Store) -> str:
        book = KeyBook(store)
        _, secret = await book.create(Role.RUNTIME, cell.account, "bound", "review")
        return secret

    headers = {"authorization": f"Bearer {cell.run(bind)}"}
    answer = cell.post(_V1, chat_body("auto", max_tokens=8), headers=headers)
    assert answer.headers["x-penstock-contract"] == "review@1"
    assert rows_of(cell, check_request_id(answer.headers))[0]["workflow"] == "review"
    other = {**headers, "x-penstock-workflow": "labels"}
    check_openai(cell.post(_V1, chat_body(), headers=other), 403, "workflow_not_allowed")
    check_envelope(
        cell.post(cell.path(f"run/{CHAT}"), {"messages": prompt()}, headers=other), 403, 9040
    )


def test_jobs_keep_the_contract_that_they_were_submitted_under(cell: Cell) -> None:
    headers = {"x-penstock-workflow": "review", "prefer": "respond-async"}
    answer = cell.post(_V1, chat_body("auto", max_tokens=900), headers=headers)
    assert answer.status_code in (200, 202), answer.text
    assert answer.headers["x-penstock-contract"] == "review@1"
    job = answer.json()["id"].removeprefix("job_")

    async def ticket(store: Store) -> tuple[bytes, str]:
        async with store.statement() as statement:
            statement_text = "select ticket, model from jobs where id::text like %s"
            row = await statement.fetch_one(statement_text, (f"%{job[-12:]}",))
        assert row is not None
        return bytes(row[0]), row[1]

    packed, model = cell.run(ticket)
    kept = msgspec.msgpack.decode(packed, type=Ticket)
    labels = (kept.contract, kept.task, kept.model_asked, kept.output_tokens_max)
    assert (labels, model) == (("review@1", "default", "auto", 50), CHAT)


def test_another_accounts_contract_is_refused(cells: CellFactory) -> None:
    with cells.open(REFRESH) as cell:
        cell.set_up(CHAT)
        private = contract("private", f'accounts = ["{"0" * 32}"]')
        watched = contract("watched", f'accounts = ["{"0" * 32}"]\nmode = "observe"')
        in_force(cell, private, watched)
        said = check_openai(_ask(cell, "private", CHAT), 403, "workflow_not_allowed")
        assert "private" in said
        assert _ask(cell, "watched", CHAT).status_code == 200
        assert "x-penstock-contract" not in _ask(cell, "watched", CHAT).headers


def test_a_set_that_cannot_be_used_leaves_the_one_before(
    cells: CellFactory, tmp_path: Path
) -> None:
    with cells.open(REFRESH) as cell:
        cell.set_up(CHAT)
        in_force(cell, contract("review", "output = { tokens_max = 50 }"))
        unfit = contract("review", "", 'default = "a-model-of-another-site"')
        cell.run(lambda store: apply_texts(store, unfit))
        eventually(lambda: cell.gateway.metric("penstock_contracts_refused") == 1)
        assert _ask(cell, "review", CHAT).headers["x-penstock-applied"] == "output=50"
        ready = cell.get("/readyz?verbose")
        assert ready.status_code == 200
        assert "a-model-of-another-site" in ready.json()["warnings"][0]
        with pytest.raises(RuntimeError, match="a-model-of-another-site"):
            GatewayProcess(tmp_path, {"store.dsn": cell.dsn}).start()
        in_force(cell, contract("review", "output = { tokens_max = 40 }"))
        assert cell.gateway.metric("penstock_contracts_refused") == 0
        assert _ask(cell, "review", CHAT).headers["x-penstock-applied"] == "output=40"
