"""Runs commands in the test's own process, and leaves environment and log as they were."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app

Penstock = Callable[..., Result]
_CLIENT = ("PENSTOCK_URL", "PENSTOCK_KEY", "PENSTOCK_ACCOUNT")


@pytest.fixture
def penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    """`penstock("models", "list")` in an empty folder, without settings of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.config.SEARCHED", (Path("penstock.toml"),))
    for name in ("PENSTOCK_CONFIG", "PENSTOCK_STORE_DSN", *_CLIENT):
        monkeypatch.delenv(name, raising=False)
    root = logging.getLogger()
    before = (list(root.handlers), root.level)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    yield run
    root.handlers[:], root.level = before
