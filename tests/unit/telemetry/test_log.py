"""Log lines: a phrase and its fields, whatever the fields are."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.telemetry.log import JsonLines, TextLines, fields_of, set_up, set_up_service
from penstock.telemetry.settings import TelemetrySettings


class Unprintable:
    """Something whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def record(message: str = "job claimed", **extra: object) -> logging.LogRecord:
    made = logging.getLogger("penstock.x").makeRecord(
        "penstock.x", logging.WARNING, __file__, 1, message, (), None, extra=extra
    )
    made.created = 1_800_000_000.0
    return made


def test_json_line_has_phrase_time_level_and_fields() -> None:
    line = json.loads(JsonLines().format(record(action="job_claimed", job="j1", count=3)))
    assert line == {
        "time": "2027-01-15T08:00:00+00:00",
        "level": "warning",
        "event": "job claimed",
        "logger": "penstock.x",
        "action": "job_claimed",
        "job": "j1",
        "count": 3,
    }


def test_text_line_has_phrase_time_level_and_fields() -> None:
    line = TextLines().format(record(action="job_claimed", job="j1"))
    assert line == "08:00:00 warning job claimed action=job_claimed job=j1"


def test_only_extra_fields_are_fields() -> None:
    assert fields_of(record(action="x")) == {"action": "x"}
    assert fields_of(record()) == {}


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
def test_exception_is_part_of_the_line(lines: logging.Formatter) -> None:
    made = record()
    try:
        int("a bug")
    except ValueError:
        made.exc_info = sys.exc_info()
    text = lines.format(made)
    assert "ValueError: invalid literal" in text
    if isinstance(lines, JsonLines):
        assert "ValueError: invalid literal" in json.loads(text)["exception"]


ODD: list[object] = [
    None,
    2**200,
    -(2**70),
    float("nan"),
    float("inf"),
    b"\xff\x00",
    "\ud800",
    "a\nb",
    {1: 2},
    {(1, 2): "x"},
    {None: 1},
    {"\ud800": 1},
    {1, "a"},
    object(),
    Unprintable(),
    [Unprintable()],
    ValueError("x"),
    type,
    lambda: None,
    3 + 4j,
    range(3),
]


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_line_is_written_whatever_a_field_is(lines: logging.Formatter, value: object) -> None:
    text = lines.format(record(odd=value, action="odd"))
    assert "job claimed" in text
    text.encode()
    if isinstance(lines, JsonLines):
        assert "\n" not in text
        line = json.loads(text)
        assert (line["event"], line["action"]) == ("job claimed", "odd")


def test_field_that_holds_itself_is_written_too() -> None:
    knot: list[object] = []
    knot.append(knot)
    assert json.loads(JsonLines().format(record(knot=knot)))["event"] == "job claimed"


def test_field_cannot_take_the_place_of_the_phrase_or_the_level() -> None:
    line = json.loads(JsonLines().format(record(event="forged", level="debug", time="never")))
    assert (line["event"], line["level"]) == ("job claimed", "warning")
    assert line["time"].startswith("2027")


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["action", "a", "b"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=2)
            ),
            max_leaves=4,
        ),
    )
)
def test_any_fields_make_one_json_line(extra: dict[str, object]) -> None:
    text = JsonLines().format(record("x", **extra))
    assert "\n" not in text
    assert set(extra) <= set(json.loads(text))


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(("form", "kind"), [("json", JsonLines), ("text", TextLines)])
def test_set_up_sends_lines_of_the_wanted_form_to_standard_error(
    form: str, kind: type, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(TelemetrySettings(log_format=form, log_level="warning"))  # type: ignore[arg-type]
    assert [type(handler.formatter) for handler in root_logger.handlers] == [kind]
    logging.getLogger("penstock.y").warning("seen", extra={"action": "seen"})
    logging.getLogger("penstock.y").info("not seen")
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "seen" in captured.err
    assert captured.out == ""


def test_a_service_writes_the_same_lines_by_a_thread(
    root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_service(TelemetrySettings(log_level="warning"))
    writer = set_up_service(TelemetrySettings(log_level="warning"))
    logging.getLogger("penstock.y").warning("seen", extra={"action": "seen"})
    writer.close(5)
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["action"] == "seen"
    assert len(root_logger.handlers) == 1
