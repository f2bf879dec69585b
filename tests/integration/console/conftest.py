"""A control process of the test's own, and commands that reach it and no database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.commands import Penstock
from tests.integration.cells.control_process import ControlProcess, control_process
from typer.testing import CliRunner

from penstock.cli.commands import app


@pytest.fixture
def control(dsn: str, tmp_path: Path) -> Iterator[ControlProcess]:
    """Control that is not slowed down by many wrong keys."""
    with control_process(dsn, tmp_path, {"control.wrong_keys_per_minute": 10_000}) as control:
        yield control


@pytest.fixture
def remote(control: ControlProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """Commands that know control's address and a key, and nothing of the database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_STORE_DSN", raising=False)
    monkeypatch.setenv("PENSTOCK_OPERATOR_URL", control.url)
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", control.keys.operator)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))
