"""A webhook's URL is read strictly."""

import pytest

from penstock.errors import InvalidRequest
from penstock.outbound.addresses import Guard
from penstock.outbound.target import Target, check_target, read_target


def test_a_url_says_where_to_connect_and_what_to_ask_for() -> None:
    assert read_target("https://Hooks.example:8443/a/b?c=d") == Target(
        "hooks.example", 8443, True, "Hooks.example:8443", "/a/b?c=d"
    )
    assert read_target("http://[fd12::1]") == Target("fd12::1", 80, False, "[fd12::1]", "/")


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example", "ftp://a/", "https://", "https:///path", "https://u:p@a/",
        "https://u@a/", "https://a/#b", "https://a:0/", "https://a:70000/", "https://a:x/",
        "https://a/b c", "https://a/\r\nx: y", "https://a\\b/", "https://ä.example/",
        "https://[::1/", "https://a/" + "x" * 2048,
    ],
)  # fmt: skip
def test_what_cannot_be_posted_to_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        read_target(url)


def test_an_address_that_may_not_be_reached_is_refused_at_once() -> None:
    for url in (
        "https://127.0.0.1/",
        "http://93.184.216.34/",
        "https://[::1]/",
        "https://10.0.0.1",
    ):
        with pytest.raises(InvalidRequest):
            check_target(url, Guard())
    check_target("http://127.0.0.1:8000/", Guard(["127.0.0.0/8"]))
    check_target("https://hooks.example/", Guard())
