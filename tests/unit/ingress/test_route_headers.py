"""Where a request went, as its caller sees it in headers."""

from penstock.ingress.inference.cors import EXPOSED_HEADERS
from penstock.ingress.inference.route_headers import NAMES, route_headers
from penstock.records.request import RequestEnd


def fields(end: RequestEnd) -> dict[str, str]:
    lines = route_headers(end).decode().split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(": ", 1) for line in lines)


def test_nothing_is_said_where_no_attempt_was_made() -> None:
    assert route_headers(RequestEnd()) == b""


def test_replica_and_expectation_are_said_also_when_nothing_is_cached() -> None:
    assert fields(RequestEnd(replica="r1", cached_expected=0)) == {
        "x-penstock-replica": "r1",
        "x-penstock-cache-expected": "0",
    }
    assert fields(RequestEnd(replica="r1")) == {"x-penstock-replica": "r1"}


def test_move_and_break_are_said_when_there_is_one() -> None:
    end = RequestEnd(replica="r1", cached_expected=7, session_moved="load", cache_break="message 3")
    said = fields(end)
    assert said["x-penstock-session-moved"] == "load"
    assert said["x-penstock-cache-break"] == "message 3"
    assert set(said) == set(NAMES)


def test_scripts_in_a_browser_may_read_all_of_them() -> None:
    assert set(NAMES) <= set(EXPOSED_HEADERS)
