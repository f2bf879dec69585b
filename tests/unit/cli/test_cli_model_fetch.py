"""`penstock models fetch`: where the files are at the end, and errors that say what to do."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.cli.conftest import Penstock

from penstock.cli.model_fetch import FetchLine
from penstock.cli.up.state import UpState
from penstock.fleet.weights.weight_folder import folder_of, is_complete
from penstock.testing.manual_clock import ManualClock

ENTRY = """
id = "@acme/good"
aliases = ["good"]
family = "openai"
context_tokens = 8192
[recipe]
command = ["serve", "{weights}", "--port", "{port}"]
[recipe.weights]
gigabytes = 0.001
"""


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source with a file, and an entry of the catalogue for it."""
    folder = tmp_path / "origin"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    models = tmp_path / "models"
    models.mkdir()
    (models / "good.toml").write_text(f'{ENTRY}source = "{folder}"\n')
    monkeypatch.setenv("PENSTOCK_CATALOGUE_FOLDER", str(models))
    return folder


def test_a_fetch_says_where_the_files_are(penstock: Penstock, origin: Path, tmp_path: Path) -> None:
    folder = folder_of(str(tmp_path / "penstock-state" / "weights"), str(origin))
    shown = penstock("models", "fetch", "good")
    assert shown.exit_code == 0
    assert shown.stdout == f"@acme/good: 0.0 GB in {folder}\n"
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    again = json.loads(penstock("models", "fetch", "good", "--json").stdout)
    assert again == {"model": "@acme/good", "source": str(origin), "folder": str(folder)}


def test_the_keeper_of_an_up_finds_the_files_in_its_folder(
    penstock: Penstock, origin: Path, tmp_path: Path
) -> None:
    state = UpState(tmp_path / "state")
    state.fleet.mkdir(parents=True)
    shown = penstock("models", "fetch", "good", "--state", str(state.root))
    assert shown.exit_code == 0
    assert is_complete(folder_of(str(state.weights), str(origin)), str(origin))


def test_a_recipe_without_weights_is_refused(penstock: Penstock) -> None:
    shown = penstock("models", "fetch", "smollm2")
    assert shown.exit_code == 2
    assert "[recipe.weights]" in shown.stderr


def test_a_source_that_is_away_and_a_disk_that_is_full_are_named(
    penstock: Penstock, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_FLEET_WEIGHTS_SPARE_MB", "1000000000")
    full = penstock("models", "fetch", "good")
    assert full.exit_code == 1
    assert "GB are needed" in full.stderr
    (origin / "model.safetensors").unlink()
    origin.rmdir()
    away = penstock("models", "fetch", "good")
    assert away.exit_code == 1
    assert f"Cannot fetch the weights of @acme/good: {origin} is not a folder" in away.stderr


def test_lines_tell_how_far_it_is_where_there_is_no_terminal() -> None:
    out, clock = io.StringIO(), ManualClock()
    line = FetchLine(Console(file=out, width=100), clock, "@acme/good")
    with line.bar:
        line.on_bytes(10**9, 4 * 10**9)
        assert out.getvalue() == ""
        clock.advance(11)
        line.on_bytes(2 * 10**9, 4 * 10**9)
        line.on_bytes(3 * 10**9, 4 * 10**9)
        line.on_wait()
    assert out.getvalue().splitlines() == [
        "@acme/good: 2.0 of 4.0 GB",
        "Another process fetches these weights on this host; waiting for it.",
    ]


def test_a_bar_is_drawn_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True)
    line = FetchLine(console, ManualClock(), "@acme/good")
    with line.bar:
        line.on_bytes(10**9, 4 * 10**9)
    assert "@acme/good" in out.getvalue()
    assert "1.0/4.0 GB" in out.getvalue()
