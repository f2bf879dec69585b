"""The rules read by Prometheus' own tool, and each alert in trouble and in peace."""

import subprocess
from pathlib import Path

import pytest
from tests.alert_files import RULES
from tests.integration.cells.prometheus_process import PROMTOOL, needs_prometheus

pytestmark = needs_prometheus
_HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("checked", "path"), [("rules", RULES), ("config", RULES.with_name("prometheus.yml"))]
)
def test_file_is_read_by_promtool(checked: str, path: Path) -> None:
    said = _promtool("check", checked, str(path))
    assert said.returncode == 0, said.stdout + said.stderr


def test_mistake_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(RULES.read_text().replace("sum by (model) (rate(", "sum by (model) (rat(", 1))
    assert _promtool("check", "rules", str(wrong)).returncode != 0


@pytest.mark.parametrize("path", sorted(_HERE.glob("*.test.yml")), ids=lambda path: path.name)
def test_each_alert_fires_in_its_trouble_and_is_silent_beside_it(path: Path) -> None:
    said = _promtool("test", "rules", str(path))
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("penstock_ejected_replicas > 0", "penstock_ejected_replicas > 3"),
        ("penstock_workers < penstock_workers_wanted", "penstock_workers > 0"),
    ],
)
def test_rule_that_fires_too_seldom_or_too_often_is_found(
    old: str, new: str, tmp_path: Path
) -> None:
    text = RULES.read_text()
    assert old in text
    (tmp_path / "penstock.rules.yml").write_text(text.replace(old, new))
    cases = (_HERE / "alerts.test.yml").read_text()
    shipped = "../../../deploy/prometheus/penstock.rules.yml"
    assert shipped in cases
    (tmp_path / "alerts.test.yml").write_text(cases.replace(shipped, "penstock.rules.yml"))
    said = _promtool("test", "rules", str(tmp_path / "alerts.test.yml"))
    assert said.returncode != 0


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PROMTOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
