"""What clients saw of contracts beside the log of decisions and the ledger: does it all hold?"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import psycopg
from tests.chaos.contracts_load import Seen
from tests.chaos.contracts_plan import UNREADABLE, WITHHELD, Effect
from tests.chaos.ledger_check import check, check_sums, read_rows, read_sent
from tests.integration.cells.gateway_process import eventually

from penstock.testing import ScriptedEngine

# What a gateway may answer while it is killed or starts; nothing of the request ran.
_UNSERVED = (429, 503)
_DOUBLE = """
    select request::text, kind, verdict, subjects, count(*) from decisions
    where request is not null group by 1, 2, 3, 4 having count(*) > 1
"""
_EFFECTS = "select request::text, kind, verdict, reason from decisions where request is not null"
_CHARGED = "select request::text, error from usage_attempts where charge_nanousd > 0"


class ContractFindings(msgspec.Struct):
    """The first five are the agreed ones; `missing` to `unseen_tampering` must be 0."""

    requests: int = 0
    # Answers that ended in tool_call_forbidden before a client's eyes.
    withheld: int = 0
    # Effects that a client saw, and attempts that an engine saw, without a row.
    missing: int = 0
    # Rows of one request, kind, verdict and subjects that are there twice; charges too.
    double: int = 0
    chain_breaks: int = 0
    # Answers with a piece of a forbidden call's arguments.
    leaked: int = 0
    # Whole answers without the effect that they must have, rows of effects that nobody ordered,
    # and charges that are not where they must be.
    wrong: int = 0
    unseen_tampering: int = 0
    # Answers that said 429 or 503; only gateways that start give any.
    unserved: int = 0
    # Answers that a kill cut, and requests without any: their gateway was down or was killed.
    cut: int = 0
    unanswered: int = 0
    changed: int = 0
    refused: int = 0
    plain: int = 0
    decisions: int = 0
    kills: int = 0
    heads: int = 0
    seed: int = 0
    seconds: float = 0.0
    cases: list[str] = []

    def note(self, name: str, what: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        if len(self.cases) < 12:
            self.cases = [*self.cases, f"{name}: {what}"]

    def as_json(self) -> str:
        fields = {n: v for n, v in msgspec.structs.asdict(self).items() if n != "cases"}
        return msgspec.json.encode(fields).decode()

    @property
    def is_kept(self) -> bool:
        """Whether every promise was kept."""
        broken = (
            self.missing, self.double, self.chain_breaks, self.leaked, self.wrong,
            self.unseen_tampering,
        )  # fmt: skip
        return not any(broken)


def judge(
    connection: psycopg.Connection, engine: ScriptedEngine, seen: Sequence[Seen], seconds: float
) -> ContractFindings:
    """The verdict as soon as all rows are there, or as it is when the time is up."""
    eventually(lambda: engine.state().running == 0, 30)
    findings = ContractFindings()

    def is_good() -> bool:
        nonlocal findings
        findings = _judged(connection, engine, seen)
        return findings.is_kept

    try:
        eventually(is_good, seconds)
    except AssertionError:
        print("\n".join(findings.cases), flush=True)
    return findings


def _judged(
    connection: psycopg.Connection, engine: ScriptedEngine, seen: Sequence[Seen]
) -> ContractFindings:
    findings = ContractFindings(requests=len(seen))
    rows: dict[str, set[Effect]] = defaultdict(set)
    for request, kind, verdict, reason in connection.execute(_EFFECTS).fetchall():
        rows[request].add((kind, verdict, reason))
        findings.decisions += 1
    charged: dict[str, list[str]] = defaultdict(list)
    for request, error in connection.execute(_CHARGED).fetchall():
        charged[request].append(error)
    for each in seen:
        _count(findings, each)
        _check_answer(findings, each, rows.get(each.request, set()))
        _check_charges(findings, each, charged.get(each.request, []))
    for row in connection.execute(_DOUBLE).fetchall():
        findings.note("double", f"decisions: {row}")
    _check_ledger(findings, connection, engine)
    return findings


def _count(findings: ContractFindings, seen: Seen) -> None:
    verdicts = {effect[1] for effect in seen.effects}
    findings.withheld += WITHHELD in seen.effects
    findings.changed += "change" in verdicts
    findings.refused += "deny" in verdicts and not seen.effects & {WITHHELD, UNREADABLE}
    findings.plain += not seen.effects
    findings.cut += not seen.is_whole
    findings.unserved += seen.status in _UNSERVED


def _check_answer(findings: ContractFindings, seen: Seen, rows: set[Effect]) -> None:
    about = f"{seen.request} of {seen.asking.workflow} at {seen.asking.path}: {seen.status}"
    for effect in seen.effects - rows:
        findings.note("missing", f"{about}: {effect} was seen, rows are {rows}")
    wanted = seen.asking.effects
    # An error says why nothing came, and not what was changed before.
    shown = wanted if seen.status == 200 else {each for each in wanted if each[1] == "deny"}
    if rows - wanted:
        findings.note("wrong", f"{about}: nobody ordered {rows - wanted}")
    if seen.has_leaked:
        findings.note("leaked", f"{about}: {seen.text}")
    if seen.is_whole and seen.status not in _UNSERVED and seen.effects != shown:
        findings.note("wrong", f"{about}: {shown} were to be seen, not {seen.effects}{seen.text}")


def _check_charges(findings: ContractFindings, seen: Seen, charged: list[str]) -> None:
    """An answer that was withheld was made: it is charged, once, and says why it did not go out."""
    for effect in seen.effects & {WITHHELD, UNREADABLE}:
        if charged != [effect[2]]:
            findings.note("wrong", f"{seen.request}: {effect} is charged as {charged}")


def _check_ledger(
    findings: ContractFindings, connection: psycopg.Connection, engine: ScriptedEngine
) -> None:
    """Each attempt that an engine saw has one row, and no request two charges."""
    verdict = check(read_rows(connection), read_sent(engine), {})
    check_sums(connection, verdict)
    findings.missing += verdict.missing
    findings.double += verdict.double
    findings.wrong += verdict.wrong
    findings.cases = [*findings.cases, *(f"ledger: {case}" for case in verdict.cases)]
