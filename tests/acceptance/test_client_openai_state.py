"""The openai Python SDK on stored responses and conversations: a base URL and a key change."""

from typing import Any

from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_run import run_python

NAME, QUESTION, AGAIN = "My name is Ada.", "What is my name?", "Say it once more."
NOT_FOUND = ["NotFoundError", "not_found"]


def run(cell: ClientCell, case: str) -> Any:
    cell.forget()
    return run_python("openai_state.py", cell, case=case, model=GPT_OSS)


def messages(cell: ClientCell) -> list[list[tuple[str, str]]]:
    """Roles and texts of the messages that the engine got, request by request."""
    return [
        [(message["role"], message["content"]) for message in request["body"]["messages"]]
        for request in cell.requests()
    ]


def test_chain_has_its_earlier_turns_and_is_streamed(scripted_cell: ClientCell) -> None:
    rows = scripted_cell.count_rows("responses")
    told = run(scripted_cell, "chain")
    first, second, third = told["responses"]
    assert [each["previous"] for each in (first, second, third)] == [
        None, first["id"], second["id"],
    ]  # fmt: skip
    assert told["created"] == third["id"]
    assert len(told["pieces"]) > 1
    assert "".join(told["pieces"]) == third["text"]
    turns = [("user", NAME), ("assistant", first["text"])]
    turns += [("user", QUESTION), ("assistant", second["text"]), ("user", AGAIN)]
    assert messages(scripted_cell) == [turns[:1], turns[:3], turns]
    assert scripted_cell.count_rows("responses") == rows + 3


def test_stored_response_is_shown_listed_and_deleted(scripted_cell: ClientCell) -> None:
    rows = scripted_cell.count_rows("responses")
    told = run(scripted_cell, "kept")
    assert told["is_found"]
    assert told["metadata"] == {"task": "names"}
    assert told["input"] == ["Be brief.", NAME, "Hello, Ada.", QUESTION]
    *pages, chained = told["gone"]
    assert pages == [NOT_FOUND] * 3
    assert chained == ["NotFoundError", "previous_response_not_found"]
    assert scripted_cell.count_rows("responses") == rows


def test_response_that_is_not_to_be_stored_is_not_found(scripted_cell: ClientCell) -> None:
    rows = scripted_cell.count_rows("responses")
    assert run(scripted_cell, "unstored") == NOT_FOUND
    assert scripted_cell.count_rows("responses") == rows


def test_compaction_stands_for_the_chain_in_later_turns(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "compact")
    assert told["object"] == "response.compaction"
    assert told["kinds"] == ["message", "message", "compaction"]
    assert told["usage"] > 0
    assert told["text"]
    first, compacting, after, last = messages(scripted_cell)
    assert compacting[: len(first)] == first
    assert [role for role, _ in compacting] == ["user", "assistant", "user", "user"]
    assert [text for role, text in after if role == "user"] == [NAME, QUESTION, AGAIN]
    ((_, summary),) = [message for message in after if message[0] == "system"]
    told_of, _, text = summary.partition("\n\n")
    assert told_of == "Summary of the conversation so far:"
    assert text
    assert last[: len(after)] == after


def test_tokens_are_counted_as_they_are_charged(scripted_cell: ClientCell) -> None:
    (counted, charged), (counted_in_chain, charged_in_chain) = run(scripted_cell, "count")
    assert counted == charged > 0
    assert counted_in_chain == charged_in_chain > charged
    # To count runs nothing.
    assert len(scripted_cell.requests()) == 3


def test_items_of_a_conversation_are_added_listed_shown_and_deleted(
    scripted_cell: ClientCell,
) -> None:
    told = run(scripted_cell, "items")
    assert told["is_found"]
    assert told["listed"] == ["a", "b", "c"]
    assert told["second"] == ["b"]
    assert told["left"] == ["a", "c"]
    assert told["metadata"] == {"topic": "z"}
    assert told["is_deleted"]
    assert told["gone"] == [NOT_FOUND] * 5
    assert scripted_cell.requests() == []


def test_responses_go_on_from_a_conversation_and_are_appended(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "conversation")
    assert told["is_named"]
    first, second = told["texts"]
    assert told["listed"] == [NAME, QUESTION, first, AGAIN, second]
    turns = [("user", NAME), ("user", QUESTION), ("assistant", first)]
    turns += [("user", AGAIN), ("assistant", second), ("user", NAME)]
    # The last one reads the conversation and is not stored in it.
    assert messages(scripted_cell) == [turns[:2], turns[:4], turns]
