"""Columns of the ledger for tests of reports: ordinary ones, unless a test says otherwise."""

from typing import Any

from penstock.metering.reports.rows import ATTEMPT_COLUMNS, request_answer
from penstock.wire.resources.usage import RequestAnswer

ORDINARY: dict[str, Any] = {
    **dict.fromkeys(ATTEMPT_COLUMNS, ""),
    **{name: 0 for name in ATTEMPT_COLUMNS if name.endswith(("_mtok", "_bp", "_nanousd"))},
    "request": "r",
    "waited_ms": 5.0,
    "first_token_ms": 400.0,
    "duration_ms": 900.0,
    "output_tokens_per_second": 50.0,
    "attempt": 1,
    "replica": "r1",
    "session": "s",
    "outcome": "ok",
    "prompt_tokens": 1000,
    "cached_tokens": 900,
    "output_tokens": 5,
    "is_cached_estimated": False,
    "cached_expected": 900,
}


def answer_of(*attempts: dict[str, Any]) -> RequestAnswer:
    """A request with these attempts."""
    rows = [ORDINARY | {"attempt": number} | facts for number, facts in enumerate(attempts, 1)]
    return request_answer([tuple(row[name] for name in ATTEMPT_COLUMNS) for row in rows])
