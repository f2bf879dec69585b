"""Log lines: a fixed phrase plus fields, as JSON or as text. Never a prompt, completion or key."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from penstock.telemetry.settings import Settings

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


def set_up(settings: Settings) -> None:
    """Send all log lines of this process to standard error, in the wanted form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # uvicorn has its own words for start-up; its access log is replaced by ours.
    logging.getLogger("uvicorn").handlers.clear()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The `extra` fields of a record."""
    return {k: v for k, v in record.__dict__.items() if k not in _STANDARD}


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        for name, value in fields_of(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line).decode()


class TextLines(logging.Formatter):
    """Time, level, phrase, and fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = " ".join(f"{name}={_text(value)}" for name, value in fields_of(record).items())
        line = f"{at} {record.levelname.lower():7} {record.getMessage()} {fields}".rstrip()
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def _encode(line: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(line, enc_hook=str)
    except Exception:  # noqa: BLE001 - a field that cannot be encoded must not cost the whole line
        return msgspec.json.encode({name: _text(value) for name, value in line.items()})


def _text(value: object) -> str:
    """A field's text, whatever it is: half of a surrogate pair, or a thing that has none."""
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"
