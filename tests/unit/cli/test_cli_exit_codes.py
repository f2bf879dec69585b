"""Errors of ours are one line and a code that means something."""

import errno
from pathlib import Path

import pytest

from penstock import errors
from penstock.catalogue import CatalogueError
from penstock.cli.exit_codes import CommandFailed, ExitCode, code_of, line_of, the_one_in
from penstock.config import ConfigError

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.StoreUnavailable(), ExitCode.NO_POSTGRES),
        (errors.NotFound("There is no account x."), ExitCode.NOT_FOUND),
        (errors.UnknownModel(), ExitCode.NOT_FOUND),
        (errors.InvalidRequest("A name is 1 to 200 characters."), ExitCode.USAGE),
        (errors.Superseded("Another keeper runs."), ExitCode.TAKEN),
        (errors.ReplicaUnreachable(), ExitCode.FAILED),
        (ConfigError("wrong"), ExitCode.USAGE),
        (CatalogueError("wrong", advice="Write it right"), ExitCode.USAGE),
        (CommandFailed("no", ExitCode.TAKEN), ExitCode.TAKEN),
        (CommandFailed("no"), ExitCode.FAILED),
        (OSError(errno.EACCES, "Permission denied", "/x"), ExitCode.FAILED),
    ],
)
def test_error_has_its_exit_code(failure: Exception, code: ExitCode) -> None:
    assert code_of(failure) == code


def test_error_is_told_in_one_line() -> None:
    assert line_of(CommandFailed("first\n  second")) == "first second"


def test_absent_postgres_comes_with_what_to_do() -> None:
    assert "`penstock up`" in line_of(errors.StoreUnavailable())


def test_lone_error_of_a_task_group_is_told_as_itself() -> None:
    cause = errors.Superseded("Another keeper runs.")
    assert the_one_in(ExceptionGroup("outer", [ExceptionGroup("inner", [cause])])) is cause
    several = ExceptionGroup("two", [cause, cause])
    assert the_one_in(several) is several


@pytest.mark.parametrize("code", ExitCode)
def test_exit_code_is_documented(code: ExitCode) -> None:
    assert f"\n| {code.value} |" in PAGE
