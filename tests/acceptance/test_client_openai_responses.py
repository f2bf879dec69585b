"""The openai Python SDK on responses, without stored state: a base URL and a key change."""

from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_checks import (
    TOO_LONG,
    UNKNOWN_MODEL,
    WRONG_KEY,
    check_conversation,
    check_tool_round,
    check_usage,
)
from tests.acceptance.client_run import run_python


def run(cell: ClientCell, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python("openai_responses.py", cell, case=case, **{"model": GPT_OSS, **arguments})


@pytest.mark.parametrize("case", ["text", "reasoning"])
def test_text_comes_with_its_usage(scripted_cell: ClientCell, case: str) -> None:
    told = run(scripted_cell, case)
    assert told["text"]
    check_usage(told["usage"])


def test_stream_comes_piece_by_piece_with_its_usage(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "stream")
    assert len(told["pieces"]) > 1
    assert "".join(told["pieces"]) == told["text"]
    check_usage(told["usage"])


@pytest.mark.parametrize("case", ["tools", "stream_tools"])
def test_tool_round(scripted_cell: ClientCell, session: str, case: str) -> None:
    check_tool_round(scripted_cell, run(scripted_cell, case, session=session), session)


def test_structured_output_is_parsed_into_a_class(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "structured")
    assert told.keys() == {"city", "degrees"}


def test_conversation_is_one_session_and_reads_its_cached_tokens(
    scripted_cell: ClientCell, session: str
) -> None:
    told = run(scripted_cell, "conversation", session=session)
    check_conversation(scripted_cell, told, session)


@pytest.mark.parametrize(
    ("mistake", "raised", "code", "says"),
    [
        (UNKNOWN_MODEL, "NotFoundError", "model_not_found", "@cf/no/such"),
        (WRONG_KEY, "AuthenticationError", "unauthenticated", "unknown or revoked"),
        (TOO_LONG, "BadRequestError", "context_length_exceeded", "maximum context length is 24000"),
    ],
    ids=["unknown model", "wrong key", "too long"],
)
def test_mistakes_are_the_clients_own_errors(
    scripted_cell: ClientCell, mistake: dict[str, str], raised: str, code: str, says: str
) -> None:
    told = run(scripted_cell, "error", **mistake)
    assert (told["raised"], told["code"]) == (raised, code)
    assert says in told["text"]


def test_account_that_keeps_nothing_is_told_what_to_send_instead(
    scripted_cell: ClientCell,
) -> None:
    key = scripted_cell.add_account("private", "--storage", "never")
    told = run(scripted_cell, "stored", penstock_key=key)
    assert (told["raised"], told["code"]) == ("BadRequestError", "stored_state_unavailable")
    assert "store: false" in told["text"]
    assert scripted_cell.requests() == []
