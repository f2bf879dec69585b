"""`penstock doctor` on engines that lack something, and ports that somebody else uses."""

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.testing import ScriptedEngine


@pytest.fixture(autouse=True)
def _log_stays_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedEngine]:
    """An engine that the configuration attaches, before any keeper has seen it."""
    monkeypatch.chdir(tmp_path)
    with ScriptedEngine(model="scripted") as running:
        replicas = f'[{{model = "smollm2", provider = "attach", url = "{running.url}/"}}]'
        monkeypatch.setenv("PENSTOCK_FLEET_REPLICAS", replicas)
        yield running


def doctor(engine: ScriptedEngine) -> dict[str, Any]:
    shown = CliRunner().invoke(app, ["doctor", "--json"])
    checks = {each["name"]: each for each in json.loads(shown.stdout)}
    return {
        name.removeprefix(f"engine {engine.url}").strip() or "engine": each
        for name, each in checks.items()
    }


def test_engine_that_has_everything_is_well(engine: ScriptedEngine) -> None:
    checks = doctor(engine)
    assert [checks[name]["verdict"] for name in ("engine", "usage", "prefix cache")] == ["ok"] * 3
    request = engine.state().last_request
    assert request is not None
    assert json.loads(request["body"])["max_tokens"] == 1


def test_engine_that_does_not_count_cached_tokens_is_told_of(engine: ScriptedEngine) -> None:
    engine.control(lie_usage={"prompt_tokens_details": None})
    check = doctor(engine)["usage"]
    assert check["verdict"] == "warn"
    assert "--enable-prompt-tokens-details" in check["advice"]


def test_engine_that_refuses_or_talks_nonsense_fails(engine: ScriptedEngine) -> None:
    engine.control(status=400)
    assert doctor(engine)["usage"]["verdict"] == "fail"
    engine.control(garbage_json=True)
    assert doctor(engine)["usage"]["verdict"] == "fail"
    engine.control(healthy=False)
    assert doctor(engine)["engine"]["finding"] == "/health answers 503"
    engine.control(cut_before_head=True)
    assert doctor(engine)["engine"]["verdict"] == "fail"


def test_engine_that_is_not_there_fails(engine: ScriptedEngine) -> None:
    engine.kill()
    check = doctor(engine)["engine"]
    assert check["verdict"] == "fail"
    assert "Start the engine" in check["advice"]


def test_port_of_another_program_fails(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_INGRESS_PORT", str(engine.port))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        metrics_port = silent.getsockname()[1]
        monkeypatch.setenv("PENSTOCK_INGRESS_METRICS_PORT", str(metrics_port))
        checks = doctor(engine)
    assert checks[f"port {engine.port}"]["verdict"] == "fail"
    assert "ingress.metrics_port" in checks[f"metrics port {metrics_port}"]["advice"]
