"""Formats log lines: a fixed phrase plus fields, as JSON or text. No prompt, completion or key."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from penstock.telemetry.log_writer import LogWriter, standard_error
from penstock.telemetry.settings import TelemetrySettings

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


_FLUSH_SECONDS = 1.0


def set_up(settings: TelemetrySettings) -> None:
    """Send all log lines of this process to standard error, for short-lived commands."""
    _install(logging.StreamHandler(sys.stderr), settings)


def set_up_service(settings: TelemetrySettings) -> LogWriter:
    """Send all log lines to standard error from a thread, for processes that must never block."""
    writer = LogWriter(standard_error(), settings.log_buffer_bytes)
    _install(WrittenLines(writer), settings)
    return writer


def _install(handler: logging.Handler, settings: TelemetrySettings) -> None:
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    for before in root.handlers:
        if isinstance(before, WrittenLines):
            before.close()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # Penstock logs start-up and requests itself, so only errors of uvicorn are logged.
    logging.getLogger("uvicorn").handlers.clear()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the `extra` fields of a record."""
    return {k: v for k, v in record.__dict__.items() if k not in _STANDARD}


class WrittenLines(logging.Handler):
    """Hands lines to a `LogWriter`. `logging` itself flushes and closes it when Python ends."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n"
        self._writer.put(line.encode(errors="backslashreplace"), 1)

    def flush(self) -> None:
        self._writer.flush(_FLUSH_SECONDS)

    def close(self) -> None:
        self._writer.close()
        super().close()


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON."""

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
    """Formats a record as time, level, phrase, and fields as name=value."""

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
    """Return a field's text, even for half of a surrogate pair or a value whose __str__ raises."""
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"
