"""Rules, dashboards and runbooks belong together, and name only what exists."""

import re

import pytest
import yaml
from tests.alert_files import (
    DASHBOARDS,
    ROOT,
    RUNBOOKS,
    Query,
    alerts,
    panel_queries,
    panels,
    recorded_names,
    rule_queries,
)

from penstock.telemetry.keeper_metrics import KEEPER_METRICS
from penstock.telemetry.metrics import METRICS

ALERTS = alerts()
QUERIES = [*rule_queries(), *panel_queries()]
_CASES = ROOT / "tests" / "integration" / "alerts"
_SHELL = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_alerts_are_the_ones_that_the_page_lists() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    listed = re.findall(r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \|", page, re.MULTILINE)
    assert listed == [(name, name) for name in sorted(ALERTS)]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.iterdir()} == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_alert_says_how_urgent_it_is_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["runbook_url"].endswith(f"/runbooks/{name}/")
    assert rule["annotations"]["summary"].endswith(".")
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert f"`{rule['labels']['severity']}`" in page, "the page says whether it wakes somebody"


@pytest.mark.parametrize("name", ALERTS)
def test_runbook_is_short_and_has_a_command_for_each_of_three_questions(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert 25 <= len(page.splitlines()) <= 45
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings == ["What it means", "Three questions", "What to do", "When to wake whom"]
    questions = page.partition("\n## Three questions\n")[2].partition("\n## ")[0]
    asked = re.split(r"^\d\. ", questions, flags=re.MULTILINE)[1:]
    assert len(asked) == 3
    for question in asked:
        assert "?" in question.splitlines()[0]
        assert _SHELL.search(question.replace("\n    ", "\n")), question


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_every_metric_of_a_query_exists(query: Query) -> None:
    assert query.metrics() | query.recorded(), "it reads something of ours"
    assert query.metrics() <= METRICS.keys() | KEEPER_METRICS.keys()
    assert query.recorded() <= recorded_names()


def test_every_metric_that_was_added_for_an_alert_is_read_by_one() -> None:
    read = set().union(*(query.metrics() for query in rule_queries()))
    for name in ("wait_seconds", "unready_models", "workers_wanted", "host_silent_seconds"):
        assert f"penstock_{name}" in read


def test_each_panel_asks_a_question_and_has_a_unit() -> None:
    assert len(DASHBOARDS) == 4
    titles = [panel["title"] for _, panel in panels()]
    assert len(titles) == len(set(titles))
    for board, panel in panels():
        assert panel["title"].endswith("?"), (board, panel["title"])
        assert panel["fieldConfig"]["defaults"]["unit"], (board, panel["title"])
        assert panel["targets"], (board, panel["title"])
        assert all(target["legendFormat"] for target in panel["targets"])


def test_each_alert_has_a_firing_and_a_silent_case() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in _CASES.glob("*.test.yml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else silent).add(case["alertname"])
    assert fires == set(ALERTS)
    assert silent == set(ALERTS)
