"""The request log: one JSON line a request, gathered, written whole, and never in the way."""

import io
import json
from datetime import UTC, datetime

from penstock.telemetry.request_line import RequestLine
from penstock.telemetry.request_log import RequestLog

AT = datetime(2026, 11, 15, 3, 4, 5, 678000, UTC)


class Broken(io.BytesIO):
    """A disk that is full."""

    def write(self, data: object, /) -> int:
        del data
        raise OSError("no space left on device")


def line(request: str = "r1", **facts: object) -> RequestLine:
    made = RequestLine(time=AT, event="request", request=request, status=200, outcome="ok")
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def lines_of(out: io.BytesIO) -> list[dict[str, object]]:
    return [json.loads(each) for each in out.getvalue().splitlines()]


def test_line_has_what_is_known_and_nothing_that_is_not() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    log.write(line())
    log.flush()
    (written,) = lines_of(out)
    assert datetime.fromisoformat(str(written.pop("time"))) == AT
    assert written == {"event": "request", "request": "r1", "status": 200, "outcome": "ok"}


def test_unknown_tokens_are_absent_and_zero_is_written() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    log.write(line(prompt_tokens=5, cached_tokens=0, output_tokens=0))
    log.flush()
    (written,) = lines_of(out)
    assert (written["prompt_tokens"], written["cached_tokens"], written["output_tokens"]) == (
        5,
        0,
        0,
    )


def test_nothing_is_written_before_the_flush_and_all_of_it_after() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    for number in range(5):
        log.write(line(str(number)))
    assert out.getvalue() == b""
    log.flush()
    log.flush()
    assert [each["request"] for each in lines_of(out)] == ["0", "1", "2", "3", "4"]


def test_buffer_is_bounded() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    for number in range(5000):
        log.write(line(str(number), session="s" * 100))
    written = len(out.getvalue())
    log.flush()
    assert len(out.getvalue()) - written <= 64 * 1024
    assert [each["request"] for each in lines_of(out)] == [str(n) for n in range(5000)]


def test_log_that_is_off_writes_nothing() -> None:
    out = io.BytesIO()
    log = RequestLog(out, is_on=False)
    log.write(line())
    log.flush()
    assert out.getvalue() == b""


def test_log_that_cannot_be_written_stops_nobody_and_keeps_no_memory() -> None:
    log = RequestLog(Broken())
    for number in range(5000):
        log.write(line(str(number), session="s" * 100))
    log.flush()
    assert len(log._buffer) == 0


def test_closed_log_stops_nobody() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    log.write(line())
    out.close()
    log.flush()
    assert len(log._buffer) == 0


def test_any_text_of_a_caller_stays_on_one_line() -> None:
    out = io.BytesIO()
    log = RequestLog(out)
    text = 'a\nb\r\u2028"}{"x":1} é🌊\x00'
    log.write(line(session=text, path=text, caller_request=text))
    log.flush()
    assert out.getvalue().count(b"\n") == 1
    (written,) = lines_of(out)
    assert (written["session"], written["path"]) == (text, text)
