"""The openai SDK for Node: what works with it, by its base URL and key alone."""

from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI, LLAMA, ClientCell
from tests.acceptance.client_run import run_node

HELLO = "Say hello to the people at the mill, and say it with as many words as you can find."


def play(case: str, cell: ClientCell, prompt: str = HELLO, **more: str) -> Any:
    return run_node("openai", cell, case=case, prompt=prompt, **{"model": KIMI, **more})


def test_models_are_listed_and_found(scripted_cell: ClientCell) -> None:
    told = play("models", scripted_cell)
    assert {KIMI, GPT_OSS, LLAMA} <= set(told["found"])
    assert told["one"] == KIMI


def test_text_comes_with_usage_and_the_id_of_its_request(scripted_cell: ClientCell) -> None:
    told = play("text", scripted_cell, session="ses_openai_node_text")
    assert told["text"]
    (turn,) = scripted_cell.session("ses_openai_node_text")["turns"]
    assert turn["request"] == told["id"]
    assert turn["output_tokens"] == told["usage"]["completion_tokens"] > 0


def test_stream_is_the_same_text_in_pieces_with_usage(scripted_cell: ClientCell) -> None:
    whole, streamed = play("text", scripted_cell), play("stream", scripted_cell)
    assert streamed["text"] == whole["text"]
    assert streamed["pieces"] > 1
    assert streamed["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert streamed["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_tools_are_run_until_the_model_answers_in_words(scripted_cell: ClientCell) -> None:
    told = play("tools", scripted_cell, 'CALL read_level {"river":"Rhine"}')
    assert told["asked"] == ["Rhine"]
    assert told["roles"] == ["user", "assistant", "tool", "assistant"]
    assert told["text"]


def test_structured_output_is_parsed_by_its_schema(scripted_cell: ClientCell) -> None:
    parsed = play("structured", scripted_cell)["parsed"]
    assert {name: type(value) for name, value in parsed.items()} == {
        "river": str,
        "metres": float,
        "isRising": bool,
    }


def test_second_turn_of_a_session_reads_cached_tokens(scripted_cell: ClientCell) -> None:
    scripted_cell.forget()
    usages = play("conversation", scripted_cell, session="ses_openai_node")["usages"]
    assert usages[1]["prompt_tokens_details"]["cached_tokens"] > 0
    turns = scripted_cell.session("ses_openai_node", 2)["turns"]
    assert [turn["cached_tokens"] for turn in turns] == [
        usage["prompt_tokens_details"]["cached_tokens"] for usage in usages
    ]
    assert len({each["body"]["session_id"] for each in scripted_cell.requests()}) == 1


@pytest.mark.parametrize(
    ("case", "model", "prompt", "name", "status", "code"),
    [
        ("error", "@cf/no/such", HELLO, "NotFoundError", 404, "model_not_found"),
        ("error", LLAMA, "water " * 20_000, "BadRequestError", 400, "context_length_exceeded"),
        ("error", KIMI, '@script {"status": 500}', "InternalServerError", 502, "engine_failed"),
        ("stranger", KIMI, HELLO, "AuthenticationError", 401, "unauthenticated"),
    ],
    ids=["unknown model", "too long", "engine fails", "unknown key"],
)
def test_errors_are_its_own_classes(
    scripted_cell: ClientCell,
    case: str,
    model: str,
    prompt: str,
    name: str,
    status: int,
    code: str,
) -> None:
    told = play(case, scripted_cell, prompt, model=model)
    assert (told["name"], told["status"], told["code"]) == (name, status, code)


@pytest.mark.parametrize("fault", ["error_after", "cut_after"])
def test_stream_that_breaks_is_an_error(scripted_cell: ClientCell, fault: str) -> None:
    told = play("brokenStream", scripted_cell, f'@script {{"{fault}": 3}}')
    assert told["name"] == "APIError"
    assert told["message"]


def test_responses_are_answered_and_streamed_with_usage(scripted_cell: ClientCell) -> None:
    whole = play("responses", scripted_cell, model=GPT_OSS)
    streamed = play("responsesStream", scripted_cell, model=GPT_OSS)
    assert whole["status"] == "completed"
    assert whole["text"] == streamed["text"] != ""
    assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"] > 0
    assert streamed["usage"]["input_tokens_details"]["cached_tokens"] > 0
    assert streamed["types"][0] == "response.created"
    assert streamed["types"][-1] == "response.completed"


def test_response_that_was_never_stored_cannot_be_continued(scripted_cell: ClientCell) -> None:
    told = play("storedResponse", scripted_cell, model=GPT_OSS)
    assert (told["name"], told["code"]) == ("NotFoundError", "previous_response_not_found")
