"""What stands in the rules for Prometheus, in the dashboards, and in the runbooks' folder."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from penstock.contracts.alerts import alert_rules
from penstock.contracts.reading import read_contract

ROOT = Path(__file__).parent.parent
RULES = ROOT / "deploy" / "prometheus" / "penstock.rules.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RUNBOOKS = ROOT / "docs" / "runbooks"

_METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")
_RECORDED = re.compile(r"\bpenstock:[a-z0-9_:]+")
_OF_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")


class Query(msgspec.Struct, frozen=True):
    """An expression and where it stands."""

    place: str
    expr: str

    def metrics(self) -> set[str]:
        """The metrics that it reads; parts of a histogram are named by the histogram."""
        return {_OF_HISTOGRAM.sub("", name) for name in _METRIC.findall(self.expr)}

    def series(self) -> set[str]:
        """The names of the series that it reads."""
        return set(_METRIC.findall(self.expr))

    def recorded(self) -> set[str]:
        return set(_RECORDED.findall(self.expr))


def rules(text: str | None = None) -> list[dict[str, Any]]:
    """Every rule, in order; of the file that is shipped, unless a text is given."""
    groups = yaml.safe_load(RULES.read_text() if text is None else text)["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def objective_alerts() -> set[str]:
    """The names of the alerts that are made of contracts' objectives."""
    objectives = "first_token_ms = { p95 = 2000 }, success = 0.995, recovered = 0.99"
    contract = f'schema = 1\nname = "any"\nobjectives = {{ {objectives} }}\n'
    return {rule["alert"] for rule in rules(alert_rules([read_contract(contract)]))}


def recorded_names() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def rule_queries() -> list[Query]:
    return [Query(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every panel, with the name of its dashboard."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            yield path.stem, panel


def panel_queries() -> list[Query]:
    return [
        Query(f"{board}: {panel['title']}", target["expr"])
        for board, panel in panels()
        for target in panel["targets"]
    ]
