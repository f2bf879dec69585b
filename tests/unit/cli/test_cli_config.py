"""`penstock config show`, and how a wrong configuration ends."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Penstock

SECRET = "postgresql://me:hunter2@db/penstock"


def test_each_value_comes_with_its_source(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock.toml").write_text("[ingress]\nport = 9000\nworkers = 2\n")
    monkeypatch.setenv("PENSTOCK_INGRESS_WORKERS", "4")
    shown = json.loads(penstock("config", "show", "--json").stdout)
    by_name = {each["name"]: (each["value"], each["source"]) for each in shown}
    assert by_name["ingress.port"] == (9000, "penstock.toml")
    assert by_name["ingress.workers"] == (4, "PENSTOCK_INGRESS_WORKERS")
    assert by_name["ingress.host"] == ("127.0.0.1", "default")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secrets_are_hidden(
    form: tuple[str, ...], penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_STORE_DSN", SECRET)
    monkeypatch.setenv("PENSTOCK_ENGINE_API_KEYS", '{"*" = "sk-engine"}')
    shown = penstock("config", "show", *form)
    assert shown.exit_code == 0
    assert shown.stdout.count("(hidden)") == 2
    assert "hunter2" not in shown.output
    assert "sk-engine" not in shown.output


def test_named_file_is_read(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[ingress]\nport = 9001\n")
    shown = penstock("--config", "mine.toml", "config", "show")
    assert "9001" in shown.stdout
    assert "mine.toml" in shown.stdout


def test_wrong_value_is_one_line_and_exit_code_2(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[ingress]\nport = 99999\n")
    shown = penstock("config", "show")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: penstock.toml: `ingress.port`: ")
    assert shown.stderr.count("\n") == 1


def test_absent_file_is_exit_code_2(penstock: Penstock) -> None:
    shown = penstock("--config", "nowhere.toml", "config", "show")
    assert shown.exit_code == 2
    assert "nowhere.toml: there is no such file" in shown.stderr


def test_unknown_command_and_option_are_exit_code_2(penstock: Penstock) -> None:
    assert penstock("confg").exit_code == 2
    assert penstock("config", "show", "--xml").exit_code == 2


def test_version_is_printed(penstock: Penstock) -> None:
    shown = penstock("--version")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("penstock ")


@pytest.mark.parametrize("command", ["gateway", "keeper", "control"])
def test_long_running_command_needs_a_dsn(command: str, penstock: Penstock) -> None:
    shown = penstock(command)
    assert shown.exit_code == 2
    assert "store.dsn is empty" in shown.stderr


@pytest.mark.parametrize(
    "command",
    [("account", "list"), ("account", "create", "x"), ("key", "list"), ("migrate",)],
    ids=" ".join,
)
def test_command_without_a_postgres_says_how_to_name_one(
    command: tuple[str, ...], penstock: Penstock
) -> None:
    shown = penstock(*command)
    assert shown.exit_code == 2
    assert "--state" in shown.stderr


def test_key_is_for_an_account_or_for_an_operator(penstock: Penstock) -> None:
    assert penstock("key", "create").exit_code == 2
    assert penstock("key", "create", "--account", "x", "--operator").exit_code == 2
