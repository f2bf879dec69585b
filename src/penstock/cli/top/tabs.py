"""Reads what `penstock top` shows, and lays it out: one tab for each question."""

from collections import Counter
from enum import StrEnum
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

from penstock.cli.administration import Administration
from penstock.cli.replicas import REPLICA_COLUMNS, replica_cells
from penstock.cli.requests import REQUEST_COLUMNS, request_cells
from penstock.cli.table import Cell, Columns, lay_out
from penstock.cli.usage.sessions import (
    SESSION_COLUMNS,
    STABILITY_COLUMNS,
    session_cells,
    stability_cells,
)
from penstock.console.fleet_operations import (
    LIST_REPLICAS,
    LIST_WORKERS,
    ReplicasAnswer,
    ReplicasAsked,
    WorkersAnswer,
)
from penstock.console.formats import last_part
from penstock.console.incident_operations import (
    LIST_REQUESTS,
    LIST_SESSIONS,
    SHOW_STABILITY,
    NamedRequests,
    NamedSessions,
    NamedStability,
    RequestsAsked,
    SessionsAsked,
    StabilityAsked,
)
from penstock.console.operation import Nothing
from penstock.fleet.workers import SILENT_SECONDS, count_gateways, left_out

_HOUR: Final = "1h"
_ROWS: Final = "100"


class Tab(StrEnum):
    """What is shown; its key is its place, from 1."""

    FLEET = "fleet"
    WORKFLOWS = "workflows"
    SESSIONS = "sessions"
    REQUESTS = "requests"


class CellFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the tabs show; null is what was not read."""

    replicas: ReplicasAnswer | None = None
    workers: WorkersAnswer | None = None
    stability: NamedStability | None = None
    sessions: NamedSessions | None = None
    requests: NamedRequests | None = None


async def read_all(desk: Administration) -> CellFacts:
    """Read what all tabs show, for a script."""
    read = [await read_tab(desk, tab) for tab in Tab]
    known = {
        name: value
        for each in read
        for name, value in msgspec.structs.asdict(each).items()
        if value is not None
    }
    return CellFacts(**known)


async def read_tab(desk: Administration, tab: Tab) -> CellFacts:
    """Read what one tab shows."""
    if tab is Tab.FLEET:
        replicas = await desk.run(LIST_REPLICAS, ReplicasAsked())
        workers = await desk.run(LIST_WORKERS, Nothing())
        return CellFacts(replicas=replicas, workers=workers)
    if tab is Tab.WORKFLOWS:
        stability = await desk.run(SHOW_STABILITY, StabilityAsked(since=_HOUR, limit=_ROWS))
        return CellFacts(stability=stability)
    if tab is Tab.SESSIONS:
        last = SessionsAsked(since=_HOUR, order="last", limit=_ROWS)
        sessions = await desk.run(LIST_SESSIONS, last)
        return CellFacts(sessions=sessions)
    requests = await desk.run(LIST_REQUESTS, RequestsAsked(since=_HOUR, limit=_ROWS))
    return CellFacts(requests=requests)


def tab_lines(facts: CellFacts, now: float, console: Console) -> list[Text]:
    """Return the lines of the tab whose facts were read."""
    if facts.replicas is not None and facts.workers is not None:
        return [
            *_models(facts.replicas),
            Text(),
            *_table(
                REPLICA_COLUMNS,
                [
                    replica_cells(row, facts.replicas.use.get(row.id), now)
                    for row in facts.replicas.replicas
                ],
                console,
            ),
            Text(),
            *_left_out(facts.workers),
            _processes(facts.workers),
        ]
    if facts.stability is not None:
        names = facts.stability.account_names
        rows = [stability_cells(row, names) for row in facts.stability.stability.rows]
        return _table(STABILITY_COLUMNS, rows, console)
    if facts.sessions is not None:
        names = facts.sessions.account_names
        of_sessions = [session_cells(row, names) for row in facts.sessions.sessions.sessions]
        return _table(SESSION_COLUMNS, of_sessions, console)
    if facts.requests is not None:
        names = facts.requests.account_names
        of_requests = [request_cells(row, names) for row in facts.requests.requests.requests]
        return _table(REQUEST_COLUMNS, of_requests, console)
    return []


def _table(columns: Columns, rows: list[tuple[Cell, ...]], console: Console) -> list[Text]:
    return lay_out(columns, rows, console).lines


def _models(answer: ReplicasAnswer) -> list[Text]:
    """Return a line for each model: its replicas by state, and who runs and waits there."""
    lines = []
    for model in sorted({row.model for row in answer.replicas}):
        rows = [row for row in answer.replicas if row.model == model]
        states = Counter(str(row.state) for row in rows)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        running = sum(row.load.running for row in rows)
        waiting = sum(row.load.waiting for row in rows)
        line = Text.assemble((last_part(model), "bold"), f": {counts}, {running} running")
        line.append(f", {waiting} waiting", style="yellow" if waiting else "")
        lines.append(line)
    return lines or [Text("no replicas", style="yellow")]


def _left_out(answer: WorkersAnswer) -> list[Text]:
    """Return a line for each replica that gateway workers leave out."""
    gateways = count_gateways(answer.workers)
    return [
        Text(
            f"{replica}: left out by {each.workers} of {gateways} gateway workers: {each.reason}",
            style="red",
        )
        for replica, each in sorted(left_out(answer.workers).items())
    ]


def _processes(answer: WorkersAnswer) -> Text:
    kinds = Counter(seen.worker.kind for seen in answer.workers)
    silent = [seen for seen in answer.workers if seen.silent_seconds > SILENT_SECONDS]
    versions = sorted({seen.worker.version for seen in answer.workers})
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    text = Text(f"processes: {counts or 'none'}; version {', '.join(versions) or '-'}")
    if silent:
        names = ", ".join(f"{seen.worker.kind} on {seen.worker.host}" for seen in silent)
        text.append(f"; silent: {names}", style="red")
    return text
