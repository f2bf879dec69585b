"""The statements that pages of the console run, read from the server's log, and run again bare."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg

# Begins each entry; further lines of an entry begin with a tab.
_PREFIX: Final = "@%p@"
_ENTRY: Final = re.compile(
    r"^@(?P<process>\d+)@(?P<kind>LOG|DETAIL):  (?P<text>.*(?:\n\t.*)*)", re.MULTILINE
)
_EXECUTED: Final = re.compile(r"(?:execute [^:]*|statement): (?P<sql>.*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"\$(\d+) = (NULL|'(?:[^']|'')*')")
_PLACE: Final = re.compile(r"\$(\d+)")
# What a transaction and the pool ask beside a page's own statements.
_FRAME: Final = ("", "BEGIN", "BEGIN READ ONLY", "COMMIT", "ROLLBACK")


class Logged(msgspec.Struct):
    """One statement, with its parameters in place, and the server process that ran it."""

    process: int
    sql: str


class ServerLog:
    """The log of a server that logs each statement; it tells pages' connections from others."""

    def __init__(self, path: Path, timeout_ms: int) -> None:
        self._path = path
        # Only connections of the console's pages have this statement_timeout.
        self._mark = f"'statement_timeout', '{timeout_ms}'"

    def end(self) -> int:
        """Return where the log ends now."""
        return self._path.stat().st_size

    def of_pages(self, since: int) -> list[str]:
        """Return the statements that pages ran since a place in the log."""
        content = self._path.read_bytes()
        processes = {each.process for each in _read(content.decode()) if self._mark in each.sql}
        return [
            each.sql
            for each in _read(content[since:].decode())
            if each.process in processes and each.sql not in _FRAME and self._mark not in each.sql
        ]


def _read(log: str) -> Iterator[Logged]:
    last: Logged | None = None
    for entry in _ENTRY.finditer(log):
        text = entry["text"].replace("\n\t", "\n")
        if entry["kind"] == "LOG":
            if last is not None:
                yield last
            executed = _EXECUTED.match(text)
            sql = executed["sql"].strip() if executed else None
            last = None if sql is None else Logged(int(entry["process"]), sql)
        elif last is not None and text.lower().startswith("parameters: "):
            values = dict(_PARAMETER.findall(text))
            last.sql = _PLACE.sub(lambda place: values[place[1]], last.sql)  # noqa: B023
    if last is not None:
        yield last


def log_of(dsn: str) -> Path:
    """Return the log of an embedded server."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select current_setting('data_directory')").fetchone()
    assert row is not None
    return Path(str(row[0])).parent / "postgres.log"


def log_statements(dsn: str) -> None:
    """Let a server log each statement, as `ServerLog` reads it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter system set log_statement = 'all'")
        connection.execute(f"alter system set log_line_prefix = '{_PREFIX}'")
        connection.execute("select pg_reload_conf()")


def bare_ms(connection: psycopg.Connection[Any], statements: list[str]) -> float:
    """Run statements one after the other, and return the time until all their rows are here."""
    began = time.perf_counter()
    for sql in statements:
        connection.execute(sql).fetchall()
    return (time.perf_counter() - began) * 1000


def scanned_partitions(connection: psycopg.Connection[Any], statements: list[str]) -> list[str]:
    """Return the days of the ledger that a plan of these statements reads from end to end."""
    found = []
    for sql in statements:
        row = connection.execute(f"explain (format json) {sql}").fetchone()
        assert row is not None
        found += [
            scan["Relation Name"]
            for scan in _nodes(row[0][0]["Plan"])
            if scan["Node Type"] == "Seq Scan"
            and scan.get("Relation Name", "").startswith("usage_attempts")
        ]
    return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)
