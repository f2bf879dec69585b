"""Which periods are compared: whole hours that are over, of one length, that do not overlap."""

from datetime import UTC, datetime

import pytest

from penstock.errors import InvalidRequest
from penstock.wire.resources.difference_query import DifferenceQuery, read_difference_query
from penstock.wire.resources.usage_query import Label

NOW = datetime(2026, 11, 16, 15, 20, 7, tzinfo=UTC)


def read(**given: str) -> DifferenceQuery:
    return read_difference_query(given.items(), NOW.timestamp())


def told(query: DifferenceQuery) -> str:
    times = (query.since, query.until, query.against_since, query.against_until)
    return " ".join(f"{time:%d.%H}" for time in times)


@pytest.mark.parametrize(
    ("given", "periods"),
    [
        ({}, "15.15 16.15 14.15 15.15"),
        ({"since": "7d"}, "09.15 16.15 02.15 09.15"),
        ({"against": "week"}, "15.15 16.15 08.15 09.15"),
        # What is not over is left out, here and there.
        ({"since": "2026-11-16", "until": "2026-11-17"}, "16.00 16.15 15.09 16.00"),
        ({"since": "2026-11-16", "against": "week"}, "16.00 16.15 09.00 09.15"),
        ({"since": "2026-11-09", "until": "2026-11-16"}, "09.00 16.00 02.00 09.00"),
        ({"since": "2026-11-15", "against": "2026-11-03"}, "15.00 16.15 03.00 04.15"),
        ({"since": "2h", "against": "2026-11-01T12:34:00Z"}, "16.13 16.15 01.12 01.14"),
        # A later period may stand first.
        (
            {"since": "2026-11-01", "until": "2026-11-02", "against": "3d"},
            "01.00 02.00 13.15 14.15",
        ),
    ],
)
def test_periods_are_of_one_length(given: dict[str, str], periods: str) -> None:
    assert told(read(**given)) == periods


def test_labels_and_filters() -> None:
    assert read().by == (Label.ACCOUNT, Label.WORKFLOW)
    assert read(by="workflow").by == (Label.WORKFLOW,)
    assert read(account="a", workflow="").filters == {Label.ACCOUNT: "a", Label.WORKFLOW: ""}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"since": "10m"}, "since"),
        ({"since": "2026-12-01", "until": "2026-12-02"}, "since"),
        ({"since": "14d", "against": "week"}, "against"),
        ({"against": "12h"}, "against"),
        ({"since": "3d", "until": "2d", "against": "1h"}, "against"),
        ({"against": "month"}, "against"),
        ({"by": "model"}, "by"),
        ({"model": "m"}, "model"),
        ({"workflow": "x" * 300}, "workflow"),
    ],
)
def test_wrong_questions_are_refused(given: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**given)
    assert caught.value.param == param
