"""Rules, dashboards and runbooks belong together, and name only what exists."""

import re
from typing import Any

import pytest
import yaml
from tests.alert_files import (
    DASHBOARDS,
    ROOT,
    RUNBOOKS,
    Query,
    alerts,
    objective_alerts,
    panel_queries,
    panels,
    recorded_names,
    rule_queries,
)

from penstock.cli.commands import whole_tree
from penstock.console.screens.screens import SCREENS
from penstock.telemetry.keeper_metrics import KEEPER_METRICS
from penstock.telemetry.metrics import METRICS

ALERTS = alerts()
# What somebody on call is told of. An alert leaves this list only if it is no trouble any more.
WANTED = {
    "BeyondLeases",
    "ChainBroken",
    "ContractsRefused",
    "DrainFailing",
    "FlexOldest",
    "HitRatioFell",
    "JournalGrowing",
    "KeeperSilent",
    "LedgerUnwritable",
    "NoReadyReplica",
    "ReplicaEjected",
    "RequestsWaiting",
    "SpendSpike",
    "WebhooksLate",
    "WorkersInSilence",
    "WorkersMissing",
}
RUNBOOK_NAMES = sorted(path.stem for path in RUNBOOKS.iterdir())
QUERIES = [*rule_queries(), *panel_queries()]
_CASES = ROOT / "tests" / "integration" / "alerts"
_SCREEN = re.compile(r"`(/console/[a-z]*)[^`]*`")
# The words behind it, up to an option or a value.
_COMMAND = re.compile(r"\bpenstock((?: [a-z]+\b(?!=))+)")
_SHELL = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_no_alert_is_missing() -> None:
    assert set(ALERTS) == WANTED


def test_alerts_are_the_ones_that_the_page_lists() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    listed = re.findall(r"^\| \[(\w+)\]\(runbooks/(\w+)\.md\) \|", page, re.MULTILINE)
    assert listed == [(name, name) for name in sorted(ALERTS)]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.iterdir()} == ALERTS.keys() | objective_alerts()


@pytest.mark.parametrize("name", ALERTS)
def test_alert_says_how_urgent_it_is_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["runbook_url"].endswith(f"/runbooks/{name}/")
    assert rule["annotations"]["summary"].endswith(".")
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert f"`{rule['labels']['severity']}`" in page, "the page says whether it wakes somebody"


@pytest.mark.parametrize("name", RUNBOOK_NAMES)
def test_runbook_is_short_and_has_a_command_and_a_screen_for_each_of_three_questions(
    name: str,
) -> None:
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
        assert _SCREEN.search(question), question


@pytest.mark.parametrize("name", RUNBOOK_NAMES)
def test_runbook_names_screens_that_exist(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text()
    known = {screen.path for screen in SCREENS}
    assert {path for path in _SCREEN.findall(page) if path not in known} == set()


@pytest.mark.parametrize("name", RUNBOOK_NAMES)
def test_runbook_names_commands_by_their_present_names(name: str) -> None:
    """Earlier names still work, hidden, for one release."""
    page = (RUNBOOKS / f"{name}.md").read_text()
    named = _COMMAND.findall(page)
    assert named
    for words in named:
        command: Any = whole_tree()
        for word in words.split():
            if not getattr(command, "commands", None):
                break
            found = command.commands.get(word)
            assert found is not None or command.invoke_without_command, words
            if found is None:
                break
            assert not found.hidden, words
            command = found


def test_spending_is_explained_by_comparing_it() -> None:
    assert "penstock usage diff" in (RUNBOOKS / "SpendSpike.md").read_text()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_every_metric_of_a_query_exists(query: Query) -> None:
    assert query.metrics() | query.recorded(), "it reads something of ours"
    assert query.metrics() <= METRICS.keys() | KEEPER_METRICS.keys()
    assert query.recorded() <= recorded_names()


def test_every_metric_that_was_added_for_an_alert_is_read_by_one() -> None:
    read = set().union(*(query.metrics() for query in rule_queries()))
    for name in ("wait_seconds", "unready_models", "workers_wanted", "host_silent_seconds"):
        assert f"penstock_{name}" in read
    assert "penstock_decision_chain_breaks" in read


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
