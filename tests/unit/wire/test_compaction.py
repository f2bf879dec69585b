"""A summary is an item that only its own cell and account can send again."""

import json
from typing import Any

import msgspec
import pytest

from penstock.errors import EngineFailed, InvalidRequest
from penstock.wire.apis.compaction import compacted, users_messages, with_summaries

KEY = "0123456789abcdef0123456789abcdef"


def response_of(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    output = [{"type": "reasoning", "content": []}, {"type": "message", "content": content}]
    return {"id": f"resp_{KEY}", "created_at": 5, "output": output, "usage": {"input_tokens": 9}}


def test_answer_has_the_users_messages_and_one_summary() -> None:
    items: list[Any] = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"type": "function_call_output", "call_id": "c", "output": "three"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "four"}]},
    ]
    answer = compacted(response_of(" In ", "short. "), users_messages(items), "secret")
    assert answer.keys() == {"id", "object", "created_at", "output", "usage"}
    first, second, summary = json.loads(msgspec.json.encode(answer["output"]))
    assert first["id"].endswith("c0")
    assert second["id"].endswith("c3")
    assert first["content"] == [{"type": "input_text", "text": "one"}]
    assert second["content"] == [{"type": "input_text", "text": "four"}]
    assert (summary["id"], summary["type"]) == (f"cmp_{KEY}c0", "compaction")
    (opened,) = with_summaries([summary], "secret")
    assert opened["role"] == "system"
    assert opened["content"].endswith("\n\nIn short.")


def test_other_items_stay_as_they_are() -> None:
    items = [{"role": "user", "content": "one"}]
    assert with_summaries(items, "secret") == items


@pytest.mark.parametrize(
    "content", [None, "", "gAAAAAB", "penstock1..", "penstock1.SW4=.00", "penstock1.\u00e9.00", 7]
)
def test_what_is_not_ours_is_refused(content: object) -> None:
    item = {"type": "compaction", "encrypted_content": content}
    with pytest.raises(InvalidRequest) as refused:
        with_summaries([{"role": "user"}, item], "secret")
    assert refused.value.param == "input.1"


def test_another_secret_does_not_open_it() -> None:
    summary = compacted(response_of("In short."), [], "secret")["output"][-1]
    with pytest.raises(InvalidRequest):
        with_summaries([summary], "another")


def test_summary_without_a_word_is_the_engines_failure() -> None:
    with pytest.raises(EngineFailed):
        compacted(response_of("  "), [], "secret")
