"""A pytest plugin that writes one JSON line for each test: its id, outcome, seconds, second try.

`tests/suite.py` loads it. Under pytest-xdist only the controlling process writes: it receives the
reports of all workers.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

NO_SECOND_TRY = "no_second_try"


class Record(NamedTuple):
    """How one test ended. `may_repeat` is False for tests with the mark `no_second_try`."""

    test: str
    is_failed: bool
    seconds: float
    may_repeat: bool


def read_records(file: Path) -> list[Record]:
    """All records of a file; none if pytest ended before it wrote one."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Record(**json.loads(line)) for line in lines]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="write how each test ended to this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--record")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(file))


class _Recorder:
    """Adds up the phases of each test (set-up, call, teardown), and writes them at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._once: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)
        if NO_SECOND_TRY in report.keywords:
            self._once.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        records = (
            Record(test, test in self._failed, round(seconds, 3), test not in self._once)
            for test, seconds in self._seconds.items()
        )
        lines = [json.dumps(record._asdict()) + "\n" for record in records]
        self._file.write_text("".join(lines))
