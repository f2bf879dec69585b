"""Labels come from three places, in this order; only a wrong one of our own is refused."""

import json

import pytest

from penstock.errors import InvalidRequest
from penstock.intake.labels import retry_number, task_label, workflow_label


def aig(workflow: object) -> bytes:
    return json.dumps({"workflow": workflow, "team": "x"}).encode()


def test_first_place_that_has_a_label_counts() -> None:
    assert workflow_label(b"ours", aig("theirs"), "body") == "ours"
    assert workflow_label(b"", aig("theirs"), "body") == "theirs"
    assert workflow_label(b"", b"", "body") == "body"
    assert workflow_label(b"", b"", "") == ""


@pytest.mark.parametrize(
    "header", [b"a b", b"x" * 65, b"\xe9", b"a\tb", b"a\n", b'"', b"a,b", b" ", b"a\0"]
)
def test_wrong_label_in_our_own_header_is_refused(header: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        workflow_label(header, aig("theirs"), "body")
    assert refused.value.param == "x-penstock-workflow"


@pytest.mark.parametrize(
    "metadata",
    [
        b"", b"not json", b"[]", b"null", b"5", b'"w"', b"{}", b'{"workflow":5}',
        b'{"workflow":null}', aig("a b"), aig("x" * 65), aig(""), aig("é"), aig("a\n"),
        aig(["w"]), b'{"workflow":"\\ud800"}', b"\xff", b"{" * 5000, b'{"a":' * 4000,
        b'{"workflow":"w","x":"%s"}' % (b"x" * 9000), b'{"workflow":"\xff"}',
    ],
)  # fmt: skip
def test_metadata_that_means_something_else_leaves_the_label_to_the_body(metadata: bytes) -> None:
    assert workflow_label(b"", metadata, "body") == "body"
    assert workflow_label(b"", metadata, "") == ""


@pytest.mark.parametrize(
    "metadata", [b"", b"not json", b"[]", b'{"task":5}', b'{"task":"\xff"}', b"\xff", b"[" * 5000]
)
def test_unreadable_metadata_names_no_task(metadata: bytes) -> None:
    assert task_label(b"", metadata, b'{"task":"a"}') == "a"
    assert task_label(b"", b"", metadata) == ""
    assert task_label(b"b", metadata, metadata) == "b"


@pytest.mark.parametrize("name", ["a", "x" * 64, "A.b_c:d/e-9", "other"])
def test_good_label_is_taken_from_anywhere(name: str) -> None:
    assert workflow_label(name.encode(), b"", "") == name
    assert workflow_label(b"", aig(name), "") == name
    assert workflow_label(b"", b"", name) == name


@pytest.mark.parametrize("name", ["x" * 65, "a b", "é", "a\n", "\ud800", "\0"])
def test_wrong_label_in_the_body_is_left_out(name: str) -> None:
    assert workflow_label(b"", b"", name) == ""


@pytest.mark.parametrize(
    ("header", "number"),
    [
        (b"0", 0), (b"1", 1), (b"007", 7), (b"1000", 1000), (b"9999", 1000), (b"", None),
        (b"10000", None), (b"-1", None), (b"1.0", None), (b"\xb2", None), (b" 1", None),
        (b"1_0", None), (b"one", None), (b"9" * 5000, None),
    ],
)  # fmt: skip
def test_clients_own_retries_are_a_small_number_or_unknown(
    header: bytes, number: int | None
) -> None:
    assert retry_number(header) == number
