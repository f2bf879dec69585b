"""Alerts for Prometheus, made of contracts' objectives: burn rates over several windows. Pure.

An objective of 99.5 % leaves a budget of 0.5 % for bad requests. An alert fires when the budget is
used up so many times faster than it lasts, both lately and over a longer time, so that it starts
soon and ends soon.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from penstock.contracts.document import Contract, Objectives

# The address in the shipped rules, which a site replaces by its own.
DOCS_URL: Final = "https://docs.penstock.example"
# Burn rate, the long and the short window, and how urgent it is; for a budget of 28 days.
_WINDOWS: Final = (
    (14.4, "1h", "5m", "page"),
    (6.0, "6h", "30m", "page"),
    (3.0, "1d", "2h", "ticket"),
    (1.0, "3d", "6h", "ticket"),
)
_DAYS: Final = 28
# Fewer requests than this in the long window say nothing.
_REQUESTS_MIN: Final = 100
_LATENCY: Final = "penstock_workflow_first_token_seconds"
_REQUESTS: Final = "penstock_workflow_requests_total"
_RETRIED: Final = "penstock_recovered_total"
_PERCENT: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Alert(msgspec.Struct, frozen=True):
    """A rule as Prometheus reads it."""

    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]


class _Signal(msgspec.Struct, frozen=True):
    """A share of bad requests: expressions with `{window}`, and the share that is allowed."""

    name: str
    bad: str
    all: str
    budget: float
    says: str


def alert_rules(contracts: Iterable[Contract], docs_url: str = DOCS_URL) -> str:
    """Return a file of rules, as YAML; JSON is YAML, and needs no library."""
    runbooks = f"{docs_url.rstrip('/')}/runbooks"
    groups = [
        {
            "name": f"penstock-contract-{each.name}",
            "rules": list(_alerts(each, each.objectives, runbooks)),
        }
        for each in sorted(contracts, key=lambda each: each.name)
        if each.objectives is not None
    ]
    text = msgspec.json.encode({"groups": groups})
    return msgspec.json.format(text, indent=2).decode() + "\n"


def _alerts(contract: Contract, objectives: Objectives, runbooks: str) -> Iterator[Alert]:
    for signal in _signals(contract, objectives):
        for rate, long, short, severity in _WINDOWS:
            burn = _burn(rate, objectives.window_days)
            if burn * signal.budget >= 1:
                # Of a wide budget, not even all requests use up so much.
                continue
            name = f"Penstock{signal.name}"
            yield Alert(
                alert=name,
                expr=_expression(signal, burn, long, short),
                labels={"severity": severity, "workflow": contract.name, "window": long},
                annotations={
                    "summary": f"{contract.name}: {signal.says}.",
                    "runbook_url": f"{runbooks}/{name}/",
                },
            )


def _burn(rate: float, days: int) -> float:
    """Return the rate for another window than 28 days, so that each alert is as urgent."""
    return round(max(rate * days / _DAYS, 1.0), 3)


def _signals(contract: Contract, objectives: Objectives) -> Iterator[_Signal]:
    of = f'workflow="{contract.name}"'
    if objectives.success is not None:
        yield _Signal(
            "RequestsFail",
            f'sum(increase({_REQUESTS}{{{of},outcome="failed"}}[{{window}}]))',
            f"sum(increase({_REQUESTS}{{{of}}}[{{window}}]))",
            1 - objectives.success,
            f"more requests fail than {objectives.success:.3%} of success allow",
        )
    if objectives.recovered is not None:
        yield _Signal(
            "RetriesFail",
            f'sum(increase({_RETRIED}{{{of},outcome="failed"}}[{{window}}]))',
            f"sum(increase({_RETRIED}{{{of}}}[{{window}}]))",
            1 - objectives.recovered,
            f"fewer than {objectives.recovered:.3%} of requests that are tried again succeed",
        )
    if objectives.first_token_ms is None:
        return
    for name, bound_ms in msgspec.structs.asdict(objectives.first_token_ms).items():
        if bound_ms is None:
            continue
        # As the metric writes its edges: 2.0, 0.25.
        edge = str(bound_ms / 1000)
        everything = f"sum(increase({_LATENCY}_count{{{of}}}[{{window}}]))"
        within = f'sum(increase({_LATENCY}_bucket{{{of},le="{edge}"}}[{{window}}]))'
        yield _Signal(
            "FirstTokensLate",
            f"({everything} - {within})",
            everything,
            1 - _PERCENT[name],
            f"more than {1 - _PERCENT[name]:.0%} of first tokens take over {bound_ms} ms",
        )


def _expression(signal: _Signal, rate: float, long: str, short: str) -> str:
    threshold = f"{rate * signal.budget:.6g}"
    shares = [
        f"{signal.bad} / {signal.all} > {threshold}".replace("{window}", window)
        for window in (long, short)
    ]
    enough = f"{signal.all} >= {_REQUESTS_MIN}".replace("{window}", long)
    return " and ".join([*shares, enough])
