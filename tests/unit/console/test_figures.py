"""Numbers on pages: units, digits, and the space between them."""

from penstock.console.screens.figures import dollars, fact, milliseconds, percent


def test_times_and_shares_have_a_space_before_their_unit() -> None:
    assert [milliseconds(each) for each in (None, 12.3, 999.0, 1234.0)] == [
        "\u2013",
        "12\u00a0ms",
        "999\u00a0ms",
        "1.2\u00a0s",
    ]
    assert [percent(each) for each in (None, 0.0, 0.876)] == ["\u2013", "0\u00a0%", "88\u00a0%"]


def test_amounts_of_a_column_have_the_same_digits() -> None:
    amounts = (0, 1, 8_020_000, 8_604_000, 500_000_000, 1_234_567_890_000)
    assert [dollars(each) for each in amounts] == [
        "$0.00",
        "<$0.000001",
        "$0.008020",
        "$0.008604",
        "$0.50",
        "$1,234.57",
    ]


def test_bytes_have_their_unit() -> None:
    assert fact("journal_bytes", 2_097_152) == "journal 2.1\u00a0MB"
    assert fact("in_flight", 74) == "in flight 74"
    assert fact("address", "127.0.0.1:80") == "address 127.0.0.1:80"
