"""The anthropic Python SDK on `/v1/messages`: a base URL and a key change, and nothing else."""

import json
from typing import Any

import pytest
from tests.acceptance.client_cell import KIMI, ClientCell
from tests.acceptance.client_checks import (
    TOO_LONG,
    UNKNOWN_MODEL,
    WRONG_KEY,
    check_conversation,
    check_usage,
)
from tests.acceptance.client_run import run_python


def run(cell: ClientCell, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python("anthropic_messages.py", cell, case=case, **{"model": KIMI, **arguments})


def test_text_comes_with_its_usage(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "text")
    assert told["text"]
    check_usage(told["usage"])


def test_tokens_are_counted_before_they_are_sent(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "count")
    assert told["counted"] == told["usage"]["prompt"]


def test_stream_comes_piece_by_piece_with_its_usage(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "stream")
    assert len(told["pieces"]) > 1
    assert "".join(told["pieces"]) == told["text"]
    check_usage(told["usage"])


def test_tool_round(scripted_cell: ClientCell, session: str) -> None:
    told = run(scripted_cell, "tools", session=session)
    assert told["stop"] == "tool_use"
    assert told["results"] == ["Rain in water."]
    assert told["text"]
    first, second = (request["body"] for request in scripted_cell.requests())
    assert "Rain in water." not in json.dumps(first)
    assert "Rain in water." in json.dumps(second["messages"][-1])
    assert scripted_cell.session(session, 2)["turn_count"] == 2


def test_structured_output_is_json_of_the_schema(scripted_cell: ClientCell) -> None:
    assert run(scripted_cell, "structured").keys() == {"city"}


def test_conversation_is_one_session_and_reads_its_cached_tokens(
    scripted_cell: ClientCell, session: str
) -> None:
    told = run(scripted_cell, "conversation", session=session)
    check_conversation(scripted_cell, told, session)


@pytest.mark.parametrize(
    ("mistake", "raised", "kind", "says"),
    [
        (UNKNOWN_MODEL, "NotFoundError", "not_found_error", "@cf/no/such"),
        (WRONG_KEY, "AuthenticationError", "authentication_error", "unknown or revoked"),
        (TOO_LONG, "BadRequestError", "invalid_request_error", "maximum context length is 24000"),
    ],
    ids=["unknown model", "wrong key", "too long"],
)
def test_mistakes_are_the_clients_own_errors(
    scripted_cell: ClientCell, mistake: dict[str, str], raised: str, kind: str, says: str
) -> None:
    told = run(scripted_cell, "error", **mistake)
    assert (told["raised"], told["type"]) == (raised, kind)
    assert says in told["text"]
