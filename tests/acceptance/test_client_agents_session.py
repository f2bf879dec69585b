"""OpenAI's agents SDK keeps its conversation here by `OpenAIConversationsSession`, unchanged."""

from typing import Any

from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_run import run_python


def run(cell: ClientCell, case: str, **arguments: str) -> Any:
    cell.forget()
    return run_python("agents_session.py", cell, case=case, model=GPT_OSS, **arguments)


def messages(cell: ClientCell) -> list[list[dict[str, Any]]]:
    """The messages that the engine got, request by request."""
    return [request["body"]["messages"] for request in cell.requests()]


def roles(sent: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in sent]


def test_session_has_earlier_turns_and_is_resumed_in_another_process(
    scripted_cell: ClientCell,
) -> None:
    told = run(scripted_cell, "talk")
    call, result, second = messages(scripted_cell)
    assert result[: len(call)] == call
    # The second turn has the whole first one: the call, its result, the thought and the answer.
    assert second[: len(result)] == result
    thought, question = second[len(result) :]
    assert thought == {
        "role": "assistant",
        "reasoning": "It rains there.",
        "content": told["texts"][0],
    }
    assert question == {"role": "user", "content": "And tomorrow?"}
    assert roles(second) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [item["type"] for item in told["items"]] == [
        "message", "function_call", "function_call_output", "reasoning", "message",
        "message", "message",
    ]  # fmt: skip

    resumed = run(scripted_cell, "resume", conversation=told["conversation"])
    assert resumed["found"] == told["items"]
    (third,) = messages(scripted_cell)
    assert third[: len(second)] == second
    assert third[len(second) :] == [
        {"role": "assistant", "content": told["texts"][1]},
        {"role": "user", "content": "And the day after?"},
    ]
    assert resumed["items"][: len(told["items"])] == told["items"]
    assert resumed["items"][-1]["content"][0]["text"] == resumed["text"]


def test_popped_item_is_gone_and_a_cleared_session_begins_anew(scripted_cell: ClientCell) -> None:
    conversations = scripted_cell.count_rows("conversations")
    told = run(scripted_cell, "pop_and_clear")
    assert told["popped"] == told["text"]
    assert [item["role"] for item in told["left"]] == ["user"]
    # The second turn was asked without the answer that was taken back.
    _, second = messages(scripted_cell)
    assert roles(second) == ["system", "user", "user"]
    assert told["error"] == "not_found"
    assert told["after"] == []
    assert told["is_new"]
    assert scripted_cell.count_rows("conversations") == conversations + 1
