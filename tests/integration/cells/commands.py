"""What tests of commands share: a command's type, and its JSON. conftest.py has the fixture."""

import json
from collections.abc import Callable
from typing import Any

from typer.testing import Result

# Runs one command of `penstock` in this process, on the test's own database.
Penstock = Callable[..., Result]


def read(result: Result) -> Any:
    """Return what a command printed with --json, after checking that it succeeded."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
