"""`penstock up --sandbox`: what the host and the gateway get, and what the host does not."""

from pathlib import Path

import pytest

from penstock.cli.exit_codes import CommandFailed
from penstock.cli.up.sandbox_child import (
    SandboxKind,
    check_sandbox_host,
    sandbox_arguments,
    sandbox_environment,
    sandbox_settings,
)
from penstock.cli.up.state import UpState
from penstock.config import load
from penstock.sandbox.host import read_token
from penstock.sandbox.settings import SandboxSettings


def test_host_and_gateway_get_the_same_port_and_token(tmp_path: Path) -> None:
    settings = sandbox_settings(load(None, {}), UpState(tmp_path))
    assert settings["tools.sandbox_hosts"] == [f"http://127.0.0.1:{settings['sandbox.port']}"]
    assert settings["tools.sandbox_token_file"] == settings["sandbox.token_file"]
    token = read_token(SandboxSettings(token_file=str(settings["sandbox.token_file"])))
    sandbox_settings(load(None, {}), UpState(tmp_path))
    assert read_token(SandboxSettings(token_file=str(settings["sandbox.token_file"]))) != token


def test_the_host_gets_no_setting_but_its_own() -> None:
    kept = {
        "PATH": "/bin",
        "PENSTOCK_CONFIG": "penstock.toml",
        "PENSTOCK_SANDBOX_PORT": "1",
        "PENSTOCK_TELEMETRY_LOG_LEVEL": "info",
    }
    secret = {"PENSTOCK_STORE_DSN": "x", "PENSTOCK_ENGINE_API_KEYS": "x", "PENSTOCK_KEY": "x"}
    assert sandbox_environment({**kept, **secret}) == kept


def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path) -> None:
    config = load(None, {"PENSTOCK_SANDBOX_IMAGE": str(tmp_path / "none")}).config
    with pytest.raises(CommandFailed, match="--sandbox: Containers cannot be held here"):
        check_sandbox_host(config, SandboxKind.CONTAINERS)
    check_sandbox_host(config, SandboxKind.DEV)
    assert sandbox_arguments(SandboxKind.DEV) == ("sandbox", "--dev")
