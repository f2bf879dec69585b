"""The exit codes of commands, and the one-line messages of errors."""

from enum import IntEnum

from penstock.config import ConfigError
from penstock.errors import Error, InvalidRequest, NotFound, StoreUnavailable, Superseded
from penstock.records.file_fault import FileFault
from penstock.store.migrate import MigrationChanged


class ExitCode(IntEnum):
    """The exit codes; docs/cli.md has the same table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_POSTGRES = 3
    NOT_FOUND = 4
    TAKEN = 5
    OVER_ALARM = 6


class CommandFailed(Exception):
    """Ends the command with this line and this exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


# OSError is known too: its message has the path of the file that cannot be written.
KNOWN = (CommandFailed, Error, ConfigError, FileFault, MigrationChanged, OSError)

_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (StoreUnavailable, ExitCode.NO_POSTGRES),
    (NotFound, ExitCode.NOT_FOUND),
    (Superseded, ExitCode.TAKEN),
    (InvalidRequest, ExitCode.USAGE),
    (ConfigError, ExitCode.USAGE),
    (FileFault, ExitCode.USAGE),
)


def the_one_in(failure: Exception) -> Exception:
    """Return the only exception inside a task group's ExceptionGroup, else `failure` itself."""
    while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    return failure


def code_of(failure: Exception) -> ExitCode:
    """Return the exit code for an error that reached the top."""
    if isinstance(failure, CommandFailed):
        return failure.code
    return next((code for kind, code in _CODES if isinstance(failure, kind)), ExitCode.FAILED)


def line_of(failure: Exception) -> str:
    """Return the error's message as one line."""
    # Errors that gateways answer with name their API; people at a shell have a command for it.
    text = " ".join(str(failure).split()).replace("`GET /v1/models`", "`penstock models list`")
    if isinstance(failure, StoreUnavailable):
        text += " Start it with `penstock up`, or set store.dsn to a Postgres that runs."
    return text
