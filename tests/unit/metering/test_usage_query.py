"""What a usage question may say, and how it is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidRequest
from penstock.wire.resources.usage_query import (
    ROWS_MAX,
    Label,
    Step,
    UsageQuery,
    read_period,
    read_session_query,
    read_usage_query,
)

NOW = datetime(2026, 11, 15, 10, 30, tzinfo=UTC)


def read(**params: str) -> UsageQuery:
    return read_usage_query(params.items(), NOW.timestamp())


def test_what_is_not_said_is_the_last_day_in_one_sum() -> None:
    query = read()
    # Whole hours, and everything up to now is in them.
    assert (query.since, query.until) == (
        datetime(2026, 11, 14, 10, tzinfo=UTC), datetime(2026, 11, 15, 11, tzinfo=UTC)
    )  # fmt: skip
    assert (query.group_by, query.by, query.filters) == ((), None, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T12:00:00Z", datetime(2026, 11, 1, 12, tzinfo=UTC)),
        ("2026-11-01t12:59:59.999z", datetime(2026, 11, 1, 12, tzinfo=UTC)),
        ("2026-11-01T01:00:00+02:00", datetime(2026, 10, 31, 23, tzinfo=UTC)),
    ],
)
def test_dates_and_times_are_read_as_utc(text: str, expected: datetime) -> None:
    assert read(since=text).since == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("since", ""), ("since", "yesterday"), ("since", "2026-13-01"), ("since", "20261101"),
        ("since", "2026-11-01T12:00:00"), ("since", "2026-11-01T25:00:00Z"),
        ("since", "1999-01-01"), ("until", "2026-11-01 12:00:00Z"), ("until", "99999"),
        ("since", "2027-01-01"), ("by", "minute"), ("by", ""), ("group_by", "colour"),
        ("group_by", "model,model"), ("group_by", "model,"), ("limit", "0"), ("limit", "-1"),
        ("limit", "10001"), ("limit", "1e3"), ("limit", "²"), ("limit", ""),
        ("workflow", "x" * 257), ("workflow", "a\0b"), ("workflow", "\udc80"), ("colour", "red"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**{name: text})
    assert refused.value.param == name


def test_parameter_given_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        read_usage_query([("by", "day"), ("by", "hour")], NOW.timestamp())


def test_labels_group_and_filter() -> None:
    query = read(group_by="workflow,model", by="day", workflow="", tier="flex", limit=str(ROWS_MAX))
    assert query.group_by == (Label.WORKFLOW, Label.MODEL)
    assert query.by is Step.DAY
    assert query.filters == {Label.TIER: "flex", Label.WORKFLOW: ""}
    assert query.labels == {Label.WORKFLOW, Label.MODEL, Label.TIER}
    assert query.limit == ROWS_MAX


@pytest.mark.parametrize("label", Label)
def test_only_sessions_and_prompt_families_need_the_rows(label: Label) -> None:
    needs = label in {Label.SESSION, Label.PROMPT_FAMILY}
    assert read(group_by=label).needs_attempts is needs
    assert read(**{label: "x"}).needs_attempts is needs


def test_session_needs_an_account_from_the_key_or_the_question() -> None:
    now = NOW.timestamp()
    assert read_session_query([], "s", now, account="own").account == "own"
    assert read_session_query([("account", "a")], "s", now, account=None).account == "a"
    with pytest.raises(InvalidRequest) as refused:
        read_session_query([], "s", now, account=None)
    assert refused.value.param == "account"
    with pytest.raises(InvalidRequest, match="there are since"):
        read_session_query([("model", "m")], "s", now, account="own")


@given(st.integers(10**9, 4 * 10**9), st.integers(1, 10**7))
def test_period_is_whole_hours_and_leaves_nothing_out(start: int, seconds: int) -> None:
    since = datetime.fromtimestamp(start, UTC)
    until = since + timedelta(seconds=seconds)
    period = read_period(since.isoformat(), until.isoformat(), NOW.timestamp())
    assert period.since <= since < until <= period.until
    assert since - period.since < timedelta(hours=1)
    assert period.until - until < timedelta(hours=1)
    assert (period.since.minute, period.until.minute) == (0, 0)
