"""The last event of a Responses stream that broke fits to what was sent before it."""

import json
from typing import Any

import pytest

from penstock.wire.apis.failed_response import failed_response

ERROR = {"code": "engine_lost", "message": "It went away."}
CREATED = (
    b'event: response.created\ndata: {"response":{"id":"resp_x","model":"m","tools":[{}],'
    b'"status":"in_progress","error":null},"sequence_number":0,"type":"response.created"}\n\n'
)
DELTA = b'event: d\ndata: {"delta":"\\"sequence_number\\":99","sequence_number":7,"type":"d"}\n\n'


def read(events: bytes) -> list[dict[str, Any]]:
    assert events.endswith(b"\n\n")
    told = []
    for event in events[:-2].split(b"\n\n"):
        name, data = event.split(b"\n")
        told.append(json.loads(data.removeprefix(b"data: ")))
        assert name == b"event: " + told[-1]["type"].encode()
    return told


@pytest.mark.parametrize("last", [DELTA, CREATED + DELTA, DELTA + DELTA])
def test_response_is_the_one_that_the_stream_began_with(last: bytes) -> None:
    (failed,) = read(failed_response("resp_own", ERROR, CREATED + DELTA, last))
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 8)
    response = failed["response"]
    assert (response["id"], response["model"], response["tools"]) == ("resp_x", "m", [{}])
    assert response["status"] == "failed"
    assert response["error"] == ERROR


def test_client_that_had_nothing_is_told_of_a_response_first() -> None:
    created, failed = read(failed_response("resp_own", ERROR, b"", b""))
    assert [created["sequence_number"], failed["sequence_number"]] == [0, 1]
    assert created["response"]["id"] == failed["response"]["id"] == "resp_own"
    assert (created["response"]["status"], failed["response"]["status"]) == (
        "in_progress",
        "failed",
    )


@pytest.mark.parametrize("strange", [b"data: x\n\n", b"event: x\ndata: [\n\n", b"\xff\n\n"])
def test_stream_that_makes_no_sense_still_gets_its_end(strange: bytes) -> None:
    (failed,) = read(failed_response("resp_own", ERROR, strange, strange))
    assert (failed["sequence_number"], failed["response"]["id"]) == (0, "resp_own")
