"""`penstock models`: the catalogue for people and for scripts, and a check of your entries."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Penstock

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.cli.up.state import Running, UpState

GOOD = """
id = "@acme/good"
aliases = ["good"]
family = "openai"
context_tokens = 8192
[recipe]
command = ["serve", "--port", "{port}"]
"""


@pytest.mark.parametrize("arguments", [("models",), ("models", "list")])
def test_list_names_every_model(arguments: tuple[str, ...], penstock: Penstock) -> None:
    shown = penstock(*arguments)
    assert shown.exit_code == 0
    for model in load_catalogue(CatalogueSettings()).models:
        assert model.id in shown.stdout


def test_list_as_json_has_prices_as_integers(penstock: Penstock) -> None:
    models = {each["id"]: each for each in json.loads(penstock("models", "list", "--json").stdout)}
    prices = models["@cf/moonshotai/kimi-k2.5"]["prices"][0]
    assert prices["input_nanousd_per_mtok"] == 600_000_000


def test_show_finds_a_model_by_alias(penstock: Penstock) -> None:
    shown = penstock("models", "show", "kimi-k2.5")
    assert shown.exit_code == 0
    assert "@cf/moonshotai/kimi-k2.5" in shown.stdout
    assert "--tool-call-parser kimi_k2" in shown.stdout
    plain = json.loads(penstock("models", "show", "kimi-k2.5", "--json").stdout)
    assert plain["recipe"]["gpus"] == 8


def test_show_names_prices_in_dollars(penstock: Penstock) -> None:
    shown = penstock("models", "show", "kimi-k2.5").stdout
    price = "$0.60 input, $0.10 cached, $3.00 output for a million tokens; flex x 0.5, batch x 0.5"
    assert price in shown
    assert "nanousd" not in shown
    assert "{'" not in shown


def test_list_on_a_pipe_is_no_wider_than_its_content(penstock: Penstock) -> None:
    lines = penstock("models", "list").stdout.splitlines()
    assert all(line == line.rstrip() for line in lines)


def test_models_of_a_state_folder_are_listed_and_default_is_shown(
    penstock: Penstock, tmp_path: Path
) -> None:
    state = UpState(tmp_path / "state")
    state.models.mkdir(parents=True)
    (state.models / "attached-good.toml").write_text(GOOD)
    state.write_running(Running("127.0.0.1", 8787, 0, (), "@acme/good"))
    there = ("--state", str(state.root))
    assert "@acme/good" in penstock("models", "list", *there).stdout
    listed = json.loads(penstock("models", "list", *there, "--json").stdout)
    assert {each["replicas"] for each in listed} == {None}, "nothing runs that could be asked"
    assert json.loads(penstock("models", "show", "default", *there, "--json").stdout)["id"] == (
        "@acme/good"
    )


def test_models_are_listed_while_postgres_does_not_answer(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_STORE_DSN", "postgresql://nobody@127.0.0.1:1/none")
    shown = penstock("models", "list")
    assert shown.exit_code == 0
    assert "@cf/moonshotai/kimi-k2.5" in shown.stdout
    assert "which models run is unknown" in shown.stderr


def test_unknown_model_is_exit_code_4(penstock: Penstock) -> None:
    unknown = penstock("models", "show", "no-such-model")
    assert unknown.exit_code == 4
    assert "`penstock models list`" in unknown.stderr
    assert "/v1/models" not in unknown.stderr


def test_check_accepts_a_good_folder(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    assert penstock("models", "check", str(tmp_path)).exit_code == 0


def test_check_tells_of_every_wrong_entry(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD.replace("context_tokens", "contxt_tokens"))
    (tmp_path / "b.toml").write_text(GOOD)
    (tmp_path / "c.toml").write_text("id = [")
    (tmp_path / "d.toml").write_bytes(b"id = '\xff'")
    shown = penstock("models", "check", str(tmp_path), "--json")
    assert shown.exit_code == 1
    problems = json.loads(shown.stdout)["problems"]
    assert [Path(problem.split(":")[0].split(",")[0]).name for problem in problems] == [
        "a.toml",
        "c.toml",
        "d.toml",
    ]
    told = penstock("models", "check", str(tmp_path))
    assert told.exit_code == 1
    assert "Did you mean `context_tokens`?" in told.stderr


def test_check_tells_of_two_entries_that_clash(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD.replace("@acme/good", "@acme/other"))
    shown = penstock("models", "check", str(tmp_path))
    assert shown.exit_code == 1
    assert "already a name of" in shown.stderr


def test_check_needs_a_folder(penstock: Penstock) -> None:
    assert penstock("models", "check").exit_code == 2
    assert penstock("models", "check", "nowhere").exit_code == 1


def test_wrong_entry_stops_the_list_with_exit_code_2(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text(GOOD.replace("openai", "opnai"))
    monkeypatch.setenv("PENSTOCK_CATALOGUE_FOLDER", str(tmp_path))
    shown = penstock("models")
    assert shown.exit_code == 2
    assert "a.toml" in shown.stderr
