"""The console's playground: whose key it takes, what it passes on, and what it never shows."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import assert_safe

_ASK = "/console/playground/ask"
_BODY = {"model": CHAT, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({}) as cell:
        cell.set_up(CHAT)
        yield cell


@pytest.fixture(scope="module")
def control(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    settings = {
        "control.console_gateway_url": cell.gateway.url,
        "store.cell_key_file": cell.key_file,
    }
    folder: Path = tmp_path_factory.mktemp("control")
    with control_process(cell.dsn, folder, settings) as control:
        yield control


@pytest.fixture
def browser(control: ControlProcess) -> Iterator[Browser]:
    with Browser(control) as browser:
        yield browser


def give_key(browser: Browser, secret: str) -> httpx.Response:
    return browser.client.post(
        "/console/playground/key",
        data={"token": browser.token(), "key": secret},
        headers={"origin": browser.origin},
    )


def ask(browser: Browser, body: object = _BODY, **headers: str) -> httpx.Response:
    sent = {"origin": browser.origin, "x-form-token": browser.token(), **headers}
    return browser.client.post(_ASK, content=json.dumps(body), headers=sent)


def test_a_request_gets_an_agents_answer(browser: Browser, cell: Cell) -> None:
    assert give_key(browser, cell.key).status_code == 303
    page = browser.page("/console/playground")
    assert 'id="playground"' in page
    assert cell.key not in page
    answer = ask(browser, **{"x-session-affinity": "mine", "x-penstock-workflow": "trial"})
    assert_safe(answer)
    assert answer.json()["choices"][0]["message"]["content"]
    assert float(answer.headers["x-penstock-cost-usd"]) > 0
    # The answer's own id, under which the request is explained.
    assert answer.headers["x-penstock-request"] != answer.headers["x-request-id"]


def test_a_stream_comes_as_a_stream(browser: Browser, cell: Cell) -> None:
    give_key(browser, cell.key)
    answer = ask(browser, {**_BODY, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.rstrip().endswith("data: [DONE]")
    assert ": cost-usd " in answer.text


def test_a_refusal_of_the_gateway_is_passed_on(browser: Browser, cell: Cell) -> None:
    give_key(browser, cell.key)
    answer = ask(browser, {**_BODY, "model": "@cf/no/such"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_only_runtime_keys_are_taken(browser: Browser, control: ControlProcess) -> None:
    for secret in (control.keys.operator, control.keys.auditor, "psk_nobody", ""):
        assert give_key(browser, secret).status_code == 403
    assert ask(browser).status_code == 403


def test_a_key_is_of_one_session_and_is_forgotten(
    control: ControlProcess, browser: Browser, cell: Cell
) -> None:
    give_key(browser, cell.key)
    with Browser(control) as other:
        assert ask(other).status_code == 403
    sent = {"origin": browser.origin}
    browser.client.post("/console/playground/forget", data={"token": browser.token()}, headers=sent)
    assert ask(browser).status_code == 403


def test_another_site_cannot_ask(browser: Browser, cell: Cell) -> None:
    give_key(browser, cell.key)
    assert ask(browser, **{"x-form-token": "0" * 64}).status_code == 403
    assert ask(browser, origin="http://evil.example").status_code == 403
    assert ask(browser).status_code == 200
    with httpx.Client(base_url=browser.origin, trust_env=False) as nobody:
        assert nobody.post(_ASK, content="{}").status_code == 401


def test_a_gateway_that_is_away_is_said(cell: Cell, tmp_path: Path) -> None:
    settings = {
        "control.console_gateway_url": "http://127.0.0.1:9",
        "store.cell_key_file": cell.key_file,
    }
    with control_process(cell.dsn, tmp_path, settings) as control, Browser(control) as browser:
        give_key(browser, cell.key)
        answer = ask(browser)
        assert answer.status_code == 503
        assert "127.0.0.1:9" in answer.json()["error"]["message"]


def test_without_a_gateway_there_is_no_playground(cell: Cell, tmp_path: Path) -> None:
    settings = {"control.console_gateway_url": "", "store.cell_key_file": cell.key_file}
    with control_process(cell.dsn, tmp_path, settings) as control, Browser(control) as browser:
        assert "there is no playground" in browser.page("/console/playground")
