"""Vercel's AI SDK as it is by default: it stores, and refers to earlier items by their ids."""

from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_run import run_node

PROMPT = 'What turns a mill?\n@script {"reasoning": "Think of a river."}'
CALL = 'CALL read_level {"river":"Rhine"}'


def test_references_to_earlier_items_become_those_items(scripted_cell: ClientCell) -> None:
    scripted_cell.forget()
    rows = scripted_cell.count_rows("responses")
    told = run_node("ai-sdk-state", scripted_cell, case="references", model=GPT_OSS, prompt=PROMPT)
    text, last_text = told["texts"]
    assert text
    assert last_text
    # In place of the first answer, the SDK sent the ids of its two items.
    _, second, _ = told["inputs"]
    question, thought, answer, _ = second
    assert question["role"] == "user"
    assert thought["type"] == answer["type"] == "item_reference"
    assert (thought["id"][:3], answer["id"][:4]) == ("rs_", "msg_")

    first, with_first, with_tool = (
        request["body"]["messages"] for request in scripted_cell.requests()
    )
    assert with_first == [
        *first,
        {"role": "assistant", "reasoning": "Think of a river.", "content": text},
        {"role": "user", "content": CALL},
    ]
    assert with_tool[: len(with_first)] == with_first
    call, result = with_tool[len(with_first) :]
    assert call["tool_calls"][0]["function"] == {
        "name": "read_level",
        "arguments": '{"river":"Rhine"}',
    }
    assert (result["role"], result["content"]) == ("tool", '{"metres":2.5}')
    assert scripted_cell.count_rows("responses") == rows + 3
