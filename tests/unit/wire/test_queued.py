"""Workers AI's asynchronous input: polls, lists, single inputs, and refusals by their place."""

import json
from typing import Any

import msgspec
import pytest

from penstock.errors import InvalidRequest
from penstock.wire.apis.queued import ItemAnswer, ItemError, read_queue_input, wants_queue
from penstock.wire.json_body import read_fields, write_fields


def read(body: dict[str, Any], items_max: int = 3) -> Any:
    return read_queue_input(read_fields(json.dumps(body).encode()), items_max)


def test_request_id_is_a_poll() -> None:
    assert read({"request_id": "x"}).request_id == "x"
    assert wants_queue(read_fields(b'{"request_id":"x"}'))
    assert wants_queue(read_fields(b'{"requests":[]}'))
    assert not wants_queue(read_fields(b'{"prompt":"x"}'))


def test_list_keeps_order_and_references() -> None:
    asked = read(
        {
            "requests": [
                {"prompt": "a", "external_reference": "r"},
                {"prompt": "b", "external_reference": "r"},
                {"prompt": "c"},
            ]
        }
    )
    assert [json.loads(write_fields(item.fields)) for item in asked.items] == [
        {"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"},
    ]  # fmt: skip
    assert [item.reference for item in asked.items] == ["r", "r", None]


def test_single_input_is_a_list_of_one() -> None:
    body = {"prompt": "a", "options": {"queueRequest": True}, "stream": True, "max_tokens": 3}
    (item,) = read(body).items
    assert set(item.fields) == {"prompt", "max_tokens"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"requests": []}, "empty"),
        ({"requests": {}}, "requests"),
        ({"requests": ["a"]}, "requests"),
        ({"requests": [{}, {}, {}, {}]}, "4 items; 3 are allowed"),
        ({"request_id": 3}, "request_id"),
        ({"requests": [{}, {"external_reference": 3}]}, r"requests\[1\]"),
        ({"requests": [{"external_reference": "r" * 513}]}, r"requests\[0\].*512"),
    ],
)
def test_wrong_input_is_refused_by_its_place(body: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read(body)


def test_item_has_a_result_or_an_error() -> None:
    done = ItemAnswer(2, True, "r", result=msgspec.Raw(b'{"a":1}'))
    assert json.loads(msgspec.json.encode(done)) == {
        "id": 2, "success": True, "external_reference": "r", "result": {"a": 1},
    }  # fmt: skip
    failed = ItemAnswer(0, False, error=ItemError("no", 5001, 500))
    assert json.loads(msgspec.json.encode(failed)) == {
        "id": 0,
        "success": False,
        "external_reference": None,
        "error": {"message": "no", "internalCode": 5001, "httpCode": 500},
    }
