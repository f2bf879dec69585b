"""The DSN is cut out of a command line, however it was written there, and nothing else is."""

import pytest

from penstock.cli.up.hidden_dsn import without_dsn


@pytest.mark.parametrize(
    "written",
    [["--dsn", "host=x"], ["--dsn=host=x"], ["--dsn", "--odd"], ["--dsn=a", "--dsn", "b"]],
)
def test_the_option_and_its_value_are_cut_out(written: list[str]) -> None:
    before, after = ["python", "-m", "penstock", "up", "--port", "0"], ["--json"]
    assert without_dsn([*before, *written, *after]) == [*before, *after]


def test_other_arguments_stay_as_they_are() -> None:
    arguments = ["penstock", "up", "--dsn-like", "dsn", "--state", "a --dsn b"]
    assert without_dsn(arguments) == arguments
