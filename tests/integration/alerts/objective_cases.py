"""Cases for `promtool test rules` of alerts that are made of a workflow's objectives.

A case has one share of bad requests for days. It fires in each window whose threshold the share is
above, if there were enough requests in it: so each threshold is met from both sides.
"""

import json
from typing import Any, Final

import msgspec
import yaml

from penstock.contracts.alerts import alert_rules
from penstock.contracts.reading import read_contract

CONTRACT: Final = """
schema = 1
name = "code-review"
objectives = { first_token_ms = { p95 = 2000 }, success = 0.995, recovered = 0.99 }
"""
# What the rules promise: burn, minutes of the long and the short window, severity.
WINDOWS: Final = (
    (14.4, 60, 5, "1h", "page"),
    (6.0, 360, 30, "6h", "page"),
    (3.0, 1440, 120, "1d", "ticket"),
    (1.0, 4320, 360, "3d", "ticket"),
)
_REQUESTS_MIN: Final = 100
_PLENTY: Final = 10_000.0
# Four days and an hour, a sample a minute.
_MINUTES: Final = 4 * 1440 + 60
_WORKFLOW: Final = 'account="a", workflow="code-review"'


class Signal(msgspec.Struct, frozen=True):
    """What an objective is about: its budget, and the two series of good and of bad requests.

    A histogram counts all requests in one series and the good ones in the other.
    """

    alert: str
    budget: float
    summary: str
    good: str
    bad: str
    is_histogram: bool = False


SIGNALS: Final = (
    Signal(
        "PenstockRequestsFail",
        0.005,
        "code-review: more requests fail than 99.500% of success allow.",
        f'penstock_workflow_requests_total{{{_WORKFLOW}, outcome="ok"}}',
        f'penstock_workflow_requests_total{{{_WORKFLOW}, outcome="failed"}}',
    ),
    Signal(
        "PenstockRetriesFail",
        0.01,
        "code-review: fewer than 99.000% of requests that are tried again succeed.",
        f'penstock_recovered_total{{{_WORKFLOW}, outcome="ok"}}',
        f'penstock_recovered_total{{{_WORKFLOW}, outcome="failed"}}',
    ),
    Signal(
        "PenstockFirstTokensLate",
        0.05,
        "code-review: more than 5% of first tokens take over 2000 ms.",
        f'penstock_workflow_first_token_seconds_bucket{{{_WORKFLOW}, le="2.0"}}',
        f"penstock_workflow_first_token_seconds_count{{{_WORKFLOW}}}",
        is_histogram=True,
    ),
)


def generated_rules() -> str:
    """The rules as `penstock contracts alerts` writes them."""
    return alert_rules([read_contract(CONTRACT)])


def cases_of(signal: Signal, rules_file: str) -> str:
    """A file of cases of one signal, as YAML."""
    tests = []
    for burn, long, _, _, _ in WINDOWS:
        for factor in (0.9, 1.1):
            tests.append(_case(signal, burn * factor, _PLENTY))
            # Just above the burn, and about as many requests as are enough in the long window.
            tests.append(_case(signal, burn * 1.1, factor * _REQUESTS_MIN / long))
    tests.append(_ended_case(signal))
    written: str = yaml.safe_dump(
        {
            "rule_files": [rules_file],
            # The alerts have no `for`: one look at the end is enough.
            "evaluation_interval": "1d",
            "tests": tests,
        }
    )
    return written


def _case(signal: Signal, burned: float, per_minute: float) -> dict[str, Any]:
    """A share of bad requests that uses up the budget so many times too fast."""
    share = burned * signal.budget
    assert share < 1, "more than all requests"
    firing = [
        (label, severity)
        for burn, long, _, label, severity in WINDOWS
        if burned > burn and per_minute * long >= _REQUESTS_MIN
    ]
    series = _series(signal, [(per_minute, share, _MINUTES)])
    return _test(signal, series, firing)


def _ended_case(signal: Signal) -> dict[str, Any]:
    """It was bad until six hours ago: all short windows say that it is over."""
    over = 361
    parts = [(_PLENTY, 15 * signal.budget, 4 * 1440 - over), (_PLENTY, 0.0, over + 60)]
    return _test(signal, _series(signal, parts), [])


def _series(signal: Signal, parts: list[tuple[float, float, int]]) -> list[dict[str, str]]:
    """Both series, in parts of so many requests a minute, bad share and minutes."""
    good = [(each * (1 - share), minutes) for each, share, minutes in parts]
    bad = [
        (each if signal.is_histogram else each * share, minutes) for each, share, minutes in parts
    ]
    other = signal.bad.replace("code-review", "another")
    return [
        {"series": signal.good, "values": _growing(good)},
        {"series": signal.bad, "values": _growing(bad)},
        # Of another workflow all requests are bad.
        {"series": other, "values": _growing([(_PLENTY, _MINUTES)])},
    ]


def _growing(parts: list[tuple[float, int]]) -> str:
    value, written = 0.0, []
    for step, minutes in parts:
        written.append(f"{value:.9f}+{step:.9f}x{minutes}")
        value += step * (minutes + 1)
    return " ".join(written)


def _test(
    signal: Signal, series: list[dict[str, str]], firing: list[tuple[str, str]]
) -> dict[str, Any]:
    annotations = {
        "summary": signal.summary,
        "runbook_url": f"https://docs.penstock.example/runbooks/{signal.alert}/",
    }
    expected = [
        {
            "exp_labels": {"severity": severity, "workflow": "code-review", "window": label},
            "exp_annotations": annotations,
        }
        for label, severity in firing
    ]
    case = {"eval_time": "4d", "alertname": signal.alert, "exp_alerts": expected}
    return {"interval": "1m", "input_series": series, "alert_rule_test": [case]}


def with_other_thresholds(rules: str, factor: float) -> str:
    """The same rules with each threshold moved, as a mistake in its making would."""
    parsed = json.loads(rules)
    for rule in parsed["groups"][0]["rules"]:
        parts = []
        for part in rule["expr"].split(" and "):
            before, sign, threshold = part.rpartition(" > ")
            parts.append(f"{before} > {float(threshold) * factor}" if sign else part)
        rule["expr"] = " and ".join(parts)
    return json.dumps(parsed)
