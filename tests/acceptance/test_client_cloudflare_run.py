"""Cloudflare's Python SDK: a base URL and a token are all that changes, for both model families."""

from typing import Any
from urllib.parse import quote

import pytest
from tests.acceptance.client_cell import KIMI, LLAMA, ClientCell
from tests.acceptance.client_checks import (
    TOO_LONG,
    UNKNOWN_MODEL,
    WRONG_KEY,
    check_conversation,
    check_tool_round,
    check_usage,
)
from tests.acceptance.client_run import run_python

both_families = pytest.mark.parametrize("model", [KIMI, LLAMA], ids=["openai", "native"])


def run(cell: ClientCell, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python("cloudflare_run.py", cell, case=case, **arguments)


@both_families
def test_text_comes_with_its_usage(scripted_cell: ClientCell, model: str) -> None:
    told = run(scripted_cell, "text", model=model)
    assert told["text"]
    check_usage(told["usage"])


def test_models_name_may_have_its_slashes_encoded(scripted_cell: ClientCell) -> None:
    assert run(scripted_cell, "path").endswith(f"/ai/run/@cf%2F{quote(KIMI[4:], safe='')}")
    assert [request["body"]["model"] for request in scripted_cell.requests()] == [KIMI]


@both_families
def test_stream_comes_line_by_line_with_its_usage(scripted_cell: ClientCell, model: str) -> None:
    told = run(scripted_cell, "stream", model=model)
    assert len(told["pieces"]) > 1
    check_usage(told["usage"])


@both_families
def test_tool_round(scripted_cell: ClientCell, session: str, model: str) -> None:
    told = run(scripted_cell, "tools", model=model, session=session)
    check_tool_round(scripted_cell, told, session)


@both_families
def test_structured_output(scripted_cell: ClientCell, model: str) -> None:
    assert run(scripted_cell, "structured", model=model).keys() == {"city", "degrees"}


@both_families
def test_conversation_is_one_session_and_reads_its_cached_tokens(
    scripted_cell: ClientCell, session: str, model: str
) -> None:
    told = run(scripted_cell, "conversation", model=model, session=session)
    check_conversation(scripted_cell, told, session)


@both_families
def test_queued_requests_are_polled_for_until_they_are_done(
    scripted_cell: ClientCell, model: str
) -> None:
    told = run(scripted_cell, "queue", model=model)
    assert told["status"] == "queued"
    assert told["references"] == ["And tomorrow?", "Is it raining in Porto?"]
    assert all(told["texts"])
    assert told["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("mistake", "raised", "code"),
    [
        (UNKNOWN_MODEL, "BadRequestError", 5007),
        (WRONG_KEY, "AuthenticationError", 10000),
        ({"penstock_account": "somebody-else"}, "PermissionDeniedError", 10000),
        (TOO_LONG, "BadRequestError", 5006),
    ],
    ids=["unknown model", "wrong key", "another's account", "too long"],
)
def test_mistakes_are_the_clients_own_errors_with_workers_ais_codes(
    scripted_cell: ClientCell, mistake: dict[str, str], raised: str, code: int
) -> None:
    told = run(scripted_cell, "error", **mistake)
    assert (told["raised"], told["codes"]) == (raised, [code])
