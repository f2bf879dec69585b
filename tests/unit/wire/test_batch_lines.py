"""Names and lines of batches."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import new_id
from penstock.wire.resources.batches import (
    AnswerLine,
    LineResponse,
    answer_line,
    batch_of,
    one_line,
    public_id,
)


def test_a_batch_is_found_by_the_name_that_clients_see() -> None:
    id = new_id()
    assert public_id(id) == f"batch_{id.replace('-', '')}"
    assert batch_of(public_id(id)) == id
    assert batch_of(id) == id


@pytest.mark.parametrize("name", ["", "batch_", "batch_" + "x" * 32, "0" * 31, "../0", "0" * 33])
def test_what_is_no_name_of_a_batch_is_none(name: str) -> None:
    assert batch_of(name) is None


_json = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(_json)
def test_an_answer_is_one_line_however_it_was_written(answer: object) -> None:
    written = json.dumps(answer, indent=2).replace("\n", "\r\n").encode()
    line = AnswerLine("id", "mine", LineResponse(200, "request", one_line(written)), None)
    text = answer_line(line)
    assert text.count(b"\n") == 1
    assert json.loads(text)["response"]["body"] == answer
