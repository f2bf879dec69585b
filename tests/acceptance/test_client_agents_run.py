"""OpenAI's agents SDK: a base URL and a key are all that changes."""

from typing import Any

import pytest
from tests.acceptance.client_cell import ClientCell
from tests.acceptance.client_checks import (
    TOO_LONG,
    UNKNOWN_MODEL,
    WRONG_KEY,
    both_apis,
    check_conversation,
    check_tool_round,
    check_usage,
)
from tests.acceptance.client_run import run_python


def run(cell: ClientCell, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python("agents_run.py", cell, case=case, **arguments)


@both_apis
def test_text_comes_with_its_usage(scripted_cell: ClientCell, api: dict[str, str]) -> None:
    told = run(scripted_cell, "text", **api)
    assert told["text"]
    check_usage(told["usage"])


@both_apis
def test_stream_comes_piece_by_piece_with_its_usage(
    scripted_cell: ClientCell, api: dict[str, str]
) -> None:
    told = run(scripted_cell, "stream", **api)
    assert len(told["pieces"]) > 1
    check_usage(told["usage"])


@both_apis
@pytest.mark.parametrize("case", ["tools", "stream_tools"])
def test_tool_round(
    scripted_cell: ClientCell, session: str, case: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, case, session=session, **api)
    check_tool_round(scripted_cell, told, session)


@both_apis
def test_structured_output_is_parsed_into_a_class(
    scripted_cell: ClientCell, api: dict[str, str]
) -> None:
    told = run(scripted_cell, "structured", **api)
    assert told.keys() == {"city", "degrees"}


@both_apis
def test_conversation_is_one_session_and_reads_its_cached_tokens(
    scripted_cell: ClientCell, session: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, "conversation", session=session, **api)
    check_conversation(scripted_cell, told, session)


@pytest.mark.parametrize(
    ("mistake", "raised"),
    [
        (UNKNOWN_MODEL, "NotFoundError"),
        (WRONG_KEY, "AuthenticationError"),
        (TOO_LONG, "BadRequestError"),
    ],
    ids=["unknown model", "wrong key", "too long"],
)
def test_mistakes_are_the_openai_sdks_errors(
    scripted_cell: ClientCell, mistake: dict[str, str], raised: str
) -> None:
    assert run(scripted_cell, "error", **mistake)["raised"] == raised
