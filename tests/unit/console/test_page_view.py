"""Addresses of pages: what they keep, and what they refuse."""

import pytest

from penstock.console.screens.page_view import read_view
from penstock.errors import InvalidRequest


def test_a_link_keeps_period_and_filters_and_changes_what_it_says() -> None:
    view = read_view("/console/requests", [("period", "7d"), ("account", "a"), ("order", "dear")])
    assert view.link(order="slow") == "/console/requests?period=7d&account=a&order=slow"
    # What belongs to this page alone stays behind.
    assert view.link("/console/spend") == "/console/spend?period=7d&account=a"
    assert view.link(account=None, order=None) == "/console/requests?period=7d"


def test_two_times_take_the_place_of_a_period() -> None:
    view = read_view("/console/", [("since", "2026-11-01"), ("until", "2026-11-02")])
    assert (view.period, view.since, view.until) == ("", "2026-11-01", "2026-11-02")
    assert view.link(period="24h") == "/console/?period=24h"


def test_values_are_written_as_parts_of_an_address() -> None:
    view = read_view("/console/", [("workflow", "a&b=c#d/é")])
    assert view.link() == "/console/?workflow=a%26b%3Dc%23d%2F%C3%A9"


@pytest.mark.parametrize(
    "given",
    [
        [("period", "forever")],
        [("account", "a"), ("account", "b")],
        [("account", "a" * 300)],
        [("account", "\0")],
        [(f"p{number}", "x") for number in range(30)],
    ],
)
def test_an_address_that_no_page_made_is_refused(given: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequest):
        read_view("/console/", given)
