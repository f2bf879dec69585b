"""Frameworks for agents in Python, on chat and on Responses: a base URL and a key change.

One table of what each must do, whichever it is: LangChain, pydantic-ai, OpenAI's agents SDK.
"""

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

AGENTS, LANGCHAIN, PYDANTIC = "agents_run.py", "langchain_model.py", "pydantic_ai_agent.py"
NAMES = {AGENTS: "openai-agents", LANGCHAIN: "LangChain", PYDANTIC: "pydantic-ai"}
every_framework = pytest.mark.parametrize("script", NAMES, ids=NAMES.__getitem__)


def run(cell: ClientCell, script: str, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python(script, cell, case=case, **arguments)


@every_framework
@both_apis
def test_text_comes_with_its_usage(
    scripted_cell: ClientCell, script: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, script, "text", **api)
    assert told["text"]
    check_usage(told["usage"])


@every_framework
@both_apis
def test_stream_comes_piece_by_piece_with_its_usage(
    scripted_cell: ClientCell, script: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, script, "stream", **api)
    assert len(told["pieces"]) > 1
    check_usage(told["usage"])


@every_framework
@both_apis
@pytest.mark.parametrize("case", ["tools", "stream_tools"])
def test_tool_round(
    scripted_cell: ClientCell, session: str, script: str, case: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, script, case, session=session, **api)
    check_tool_round(scripted_cell, told, session)


@both_apis
@pytest.mark.parametrize(
    ("script", "case"),
    [*((script, "structured") for script in NAMES), (PYDANTIC, "structured_by_tool")],
)
def test_structured_output_is_parsed_into_a_class(
    scripted_cell: ClientCell, script: str, case: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, script, case, **api)
    assert told.keys() == {"city", "degrees"}


@every_framework
@both_apis
def test_conversation_is_one_session_and_reads_its_cached_tokens(
    scripted_cell: ClientCell, session: str, script: str, api: dict[str, str]
) -> None:
    told = run(scripted_cell, script, "conversation", session=session, **api)
    check_conversation(scripted_cell, told, session)


@pytest.mark.parametrize(
    ("script", "mistake", "raised"),
    [
        (AGENTS, UNKNOWN_MODEL, "NotFoundError"),
        (AGENTS, WRONG_KEY, "AuthenticationError"),
        (AGENTS, TOO_LONG, "BadRequestError"),
        (LANGCHAIN, UNKNOWN_MODEL, "ModelNotFoundError"),
        (LANGCHAIN, WRONG_KEY, "ModelAuthenticationError"),
        (LANGCHAIN, TOO_LONG, "ContextOverflowError"),
        (PYDANTIC, UNKNOWN_MODEL, "ModelNotFoundError"),
        (PYDANTIC, WRONG_KEY, "ModelAuthenticationError"),
        (PYDANTIC, TOO_LONG, "ModelContextWindowExceededError"),
    ],
    ids=lambda value: NAMES.get(value, value) if isinstance(value, str) else "",
)
def test_mistakes_are_the_frameworks_own_errors(
    scripted_cell: ClientCell, script: str, mistake: dict[str, str], raised: str
) -> None:
    assert raised in run(scripted_cell, script, "error", **mistake)["raised"]
