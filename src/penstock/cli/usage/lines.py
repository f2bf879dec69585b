"""Prints usage as CSV: a column for each label and each sum; unknown is empty."""

import csv
import sys
from datetime import datetime

import msgspec

from penstock.wire.resources.usage import SessionAnswer, Turn, UsageAnswer, UsageRow

# Refusals are counts by reason, which do not fit one cell; the JSON has them.
_LEFT_OUT = frozenset({"start", "labels", "refusals"})
_SUMS = tuple(name for name in UsageRow.__struct_fields__ if name not in _LEFT_OUT)


def print_usage_csv(answer: UsageAnswer) -> None:
    """Print a line of titles, then a line for each row."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    has_start = answer.by is not None
    start = ["start"] if has_start else []
    writer.writerow([*start, *answer.group_by, *_SUMS])
    for row in answer.rows:
        labels = [row.labels[name] for name in answer.group_by]
        sums = [getattr(row, name) for name in _SUMS]
        writer.writerow([*([_text(row.start)] if has_start else []), *labels, *sums])


def print_session_csv(answer: SessionAnswer) -> None:
    """Print a line of titles, then a line for each turn."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(Turn.__struct_fields__)
    writer.writerows(
        [_text(value) for value in msgspec.structs.astuple(turn)] for turn in answer.turns
    )


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
