"""Alerts of workflows' objectives, judged by Prometheus' own tool: each window from both sides."""

import subprocess
from pathlib import Path

import pytest
from tests.integration.alerts.objective_cases import (
    SIGNALS,
    Signal,
    cases_of,
    generated_rules,
    with_other_thresholds,
)
from tests.integration.cells.prometheus_process import PROMTOOL, needs_prometheus

pytestmark = needs_prometheus
_RULES = "workflows.rules.yml"


def test_generated_rules_are_read_by_promtool(tmp_path: Path) -> None:
    path = tmp_path / _RULES
    path.write_text(generated_rules())
    said = _promtool("check", "rules", str(path))
    assert said.returncode == 0, said.stdout + said.stderr
    assert "12 rules found" in said.stdout


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.alert)
def test_each_window_fires_above_its_burn_and_is_silent_below(
    signal: Signal, tmp_path: Path
) -> None:
    said = _judged(signal, generated_rules(), tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_threshold_that_is_wrong_is_found(factor: float, tmp_path: Path) -> None:
    rules = with_other_thresholds(generated_rules(), factor)
    assert _judged(SIGNALS[0], rules, tmp_path).returncode != 0


def _judged(signal: Signal, rules: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / _RULES).write_text(rules)
    cases = folder / "cases.test.yml"
    cases.write_text(cases_of(signal, _RULES))
    return _promtool("test", "rules", str(cases))


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PROMTOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
