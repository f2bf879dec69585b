"""`penstock limit` where no database is needed: how amounts are read, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.conftest import Penstock

from penstock.cli.dollars import read_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode


@pytest.mark.parametrize(
    ("text", "nanousd"),
    [
        ("12.50", 12_500_000_000),
        ("0.000000001", 1),
        ("1e3", 1_000_000_000_000),
        ("0", 0),
        ("0.1", 100_000_000),
        ("1000000000", 10**18),
    ],
)
def test_dollars_are_read_exactly(text: str, nanousd: int) -> None:
    assert read_usd(text) == nanousd


@given(st.integers(0, 10**18))
def test_every_nano_dollar_can_be_written(nanousd: int) -> None:
    assert read_usd(f"{nanousd // 10**9}.{nanousd % 10**9:09d}") == nanousd


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "nan", "inf", "1.0000000001", "1000000001", "$5", "1,5"]
)
def test_what_is_no_amount_of_dollars_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        read_usd(text)
    assert failed.value.code is ExitCode.USAGE


def test_no_dollars_are_none() -> None:
    assert read_usd(None) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Say how much"),
        (("--usd-per-day", "x"), "no amount of dollars"),
        (("--key", "k", "--session", "s", "--tokens-per-day", "5"), "Pass one of"),
    ],
)
def test_a_limit_that_says_too_little_or_too_much_is_refused(
    penstock: Penstock, options: tuple[str, ...], said: str
) -> None:
    result = penstock("limit", "set", "--account", "a" * 32, *options)
    assert result.exit_code == ExitCode.USAGE
    assert said in result.stderr


def test_a_holder_is_a_uuid(penstock: Penstock) -> None:
    result = penstock("limit", "release", "--holder", "x")
    assert result.exit_code == ExitCode.USAGE
