"""The request log: one JSON line a request, gathered, written whole, and never in the way."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_line import make_request

from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.telemetry.request_line import RequestLines, who
from penstock.telemetry.request_log import RequestLog

AT = datetime(2026, 11, 15, 3, 4, 5, 500_000, UTC)
TEXT = 'a\nb\r\u2028"}{"x":1} é🌊\x00'


class Taken:
    """Stands for the log's writer: keeps the bytes and adds up the lines."""

    def __init__(self) -> None:
        self.data = b""
        self.lines = 0

    def put(self, data: bytes, lines: int) -> None:
        self.data += data
        self.lines += lines


def line(request: str = "r1", **facts: object) -> bytes:
    end = RequestEnd(status=200, **facts)  # type: ignore[arg-type]
    return RequestLines().line(AT.timestamp(), request, b"", b"", end)


def labelled(**labels: str) -> dict[str, object]:
    lines = RequestLines()
    about = lines.labels(make_request(**labels), b"")  # type: ignore[arg-type]
    made = lines.line(0.0, "r", b"", about, RequestEnd())
    assert made.count(b"\n") == 1
    read: dict[str, object] = json.loads(made)
    return read


def lines_of(out: Taken) -> list[dict[str, object]]:
    return [json.loads(each) for each in out.data.splitlines()]


def test_line_has_what_is_known_and_nothing_that_is_not() -> None:
    out = Taken()
    log = RequestLog(out.put)
    log.write(line())
    log.flush()
    (written,) = lines_of(out)
    assert datetime.fromisoformat(str(written.pop("time"))) == AT
    assert written == {"event": "request", "request": "r1", "status": 200, "outcome": "ok"}


def test_unknown_tokens_are_absent_and_zero_is_written() -> None:
    out = Taken()
    log = RequestLog(out.put)
    log.write(line(usage=Usage(5, 0, 0)))
    log.flush()
    (written,) = lines_of(out)
    assert (written["prompt_tokens"], written["cached_tokens"], written["output_tokens"]) == (
        5,
        0,
        0,
    )


def test_nothing_is_written_before_the_flush_and_all_of_it_after() -> None:
    out = Taken()
    log = RequestLog(out.put)
    for number in range(5):
        log.write(line(str(number)))
    assert out.data == b""
    log.flush()
    log.flush()
    assert [each["request"] for each in lines_of(out)] == ["0", "1", "2", "3", "4"]
    assert out.lines == 5


def test_buffer_is_bounded() -> None:
    out = Taken()
    log = RequestLog(out.put)
    for number in range(5000):
        log.write(line(str(number), replica="s" * 100))
    written = len(out.data)
    log.flush()
    assert len(out.data) - written <= 64 * 1024
    assert [each["request"] for each in lines_of(out)] == [str(n) for n in range(5000)]


def test_log_that_is_off_writes_nothing() -> None:
    out = Taken()
    log = RequestLog(out.put, is_on=False)
    log.write(line())
    log.flush()
    assert out.data == b""


@pytest.mark.parametrize("text", [TEXT, "plain", '"', "\\"])
def test_any_text_of_a_caller_stays_on_one_line(text: str) -> None:
    written = labelled(session=text, caller_request_id=text, workflow=text)
    assert (written["session"], written["caller_request"], written["workflow"]) == (text,) * 3
    names = json.loads(b"{" + who(text, text, text)[1:] + b"}")
    assert names == {"account": text, "key": text, "model": text}


def test_path_is_logged_without_its_query_however_it_is_written() -> None:
    lines = RequestLines()
    for target in (b"/a?b", b"/a?c", b'/"\xff\n?', b'/"\xff\n?'):
        path = json.loads(lines.line(0.0, "r", target, b"", RequestEnd()))["path"]
        assert path == target.decode("latin-1").partition("?")[0]


def test_what_is_kept_of_paths_and_names_is_bounded() -> None:
    lines = RequestLines()
    for number in range(10_000):
        lines.line(0.0, "r", b"/%d" % number, b"", RequestEnd(replica=str(number)))
    lines.line(0.0, "r", b"/" * 60_000, b"", RequestEnd())
    assert len(lines._paths) <= 2000
    assert len(lines._replicas._known) <= 2000
    assert max(map(len, lines._paths)) <= 256


@given(st.lists(st.floats(0, 2**32), min_size=1))
def test_time_is_that_of_each_line_to_the_microsecond(times: list[float]) -> None:
    lines = RequestLines()
    for at in times:
        written = json.loads(lines.line(at, "r", b"", b"", RequestEnd()))["time"]
        assert abs(datetime.fromisoformat(written).timestamp() - at) < 2e-6


@given(st.floats(0, 10**6))
def test_durations_are_cut_to_microseconds(seconds: float) -> None:
    end = RequestEnd(waited_seconds=seconds, first_token_seconds=seconds, total_seconds=seconds)
    written = json.loads(RequestLines().line(0.0, "r", b"", b"", end))
    expected = int(seconds * 1e6) / 1e3
    assert written["first_token_ms"] == expected
    assert written.get("queue_ms", 0.0) == written.get("total_ms", 0.0) == expected


def test_line_names_the_turn_contract_and_task_of_a_request() -> None:
    written = labelled(parent_id="p", purpose="step", contract="c@3", task="t", model_asked="m")
    named = ("parent", "purpose", "contract", "task", "model_asked")
    assert [written[name] for name in named] == ["p", "step", "c@3", "t", "m"]
    assert not set(named) & labelled().keys()
