"""The ledger beside what the engine sent and what the clients heard: does every promise hold?"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec
import psycopg
from tests.chaos.traffic import Heard
from tests.integration.cells.gateway_process import eventually

from penstock.metering.bill import ESTIMATED
from penstock.records.price import Price, Terms, cost_nanousd
from penstock.records.usage import Usage
from penstock.testing import ScriptedEngine


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One attempt in the ledger."""

    request: str
    caller_request: str
    outcome: str
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    charge_nanousd: int
    charge_reason: str
    price: Terms

    @property
    def cost_nanousd(self) -> int:
        """What the tokens cost, calculated again."""
        if self.prompt_tokens is None or self.output_tokens is None:
            return 0
        usage = Usage(self.prompt_tokens, self.output_tokens, self.cached_tokens)
        return cost_nanousd(usage, Price(*self.price))


class Sent(msgspec.Struct, frozen=True):
    """One attempt as the engine saw it."""

    request: str
    outcome: str
    tokens: int


class Verdict(msgspec.Struct):
    """How many promises were broken, and the first cases in words."""

    missing: int = 0
    double: int = 0
    wrong: int = 0
    cases: list[str] = msgspec.field(default_factory=list)

    def note(self, kind: str, what: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.cases) < 10:
            self.cases.append(f"{kind}: {what}")

    @property
    def is_good(self) -> bool:
        return not (self.missing or self.double or self.wrong)

    def __str__(self) -> str:
        return f"{self.missing} missing, {self.double} double, {self.wrong} wrong"


def read_rows(connection: psycopg.Connection) -> list[Row]:
    rows = connection.execute(
        "select request::text, caller_request, outcome, prompt_tokens, cached_tokens,"
        " output_tokens, charge_nanousd, charge_reason, input_nanousd_per_mtok,"
        " cached_input_nanousd_per_mtok, output_nanousd_per_mtok, multiplier_bp"
        " from usage_attempts"
    ).fetchall()
    return [msgspec.convert((*row[:8], row[8:]), Row) for row in rows]


def read_sent(engine: ScriptedEngine) -> list[Sent]:
    state = engine.state()
    assert len(state.requests_log) == state.requests, "the engine has forgotten requests"
    return [
        Sent(entry["headers"]["x-request-id"], entry["outcome"], entry["completion_tokens"])
        for entry in state.requests_log
    ]


def check(rows: Iterable[Row], sent: Iterable[Sent], heard: Mapping[str, Heard]) -> Verdict:
    """Every attempt that reached the engine has one row; what is charged lies where it must."""
    verdict = Verdict()
    rows_of: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        rows_of[row.request].append(row)
    sent_of: dict[str, list[Sent]] = defaultdict(list)
    for each in sent:
        sent_of[each.request].append(each)
    for request, tries in sent_of.items():
        lacking = len(tries) - len(rows_of[request])
        if lacking > 0:
            verdict.missing += lacking - 1
            verdict.note("missing", request)
    tags = set()
    for request, attempts in rows_of.items():
        if attempts:
            tags.add(attempts[0].caller_request)
            _check_request(verdict, attempts, sent_of[request], heard)
    for tag, answer in heard.items():
        if answer.is_whole and answer.status == 200 and tag not in tags:
            verdict.note("missing", f"{tag} was answered and has no row")
    return verdict


def _check_request(
    verdict: Verdict, rows: list[Row], sent: list[Sent], heard: Mapping[str, Heard]
) -> None:
    tag = rows[0].caller_request
    answer = heard.get(tag, Heard(tag))
    counted = [row for row in rows if row.output_tokens is not None]
    if sum(1 for row in rows if row.charge_nanousd) > 1 or len(counted) > len(sent):
        verdict.note("double", f"{tag}: {rows}")
    ledger = sum(row.output_tokens or 0 for row in counted)
    made = sum(each.tokens for each in sent)
    if not answer.tokens <= ledger <= made:
        verdict.note("wrong", f"{tag}: heard {answer.tokens}, ledger {ledger}, sent {made}")
    for row in rows:
        is_free = row.charge_reason not in {"", ESTIMATED}
        expected = 0 if is_free else row.cost_nanousd
        if row.charge_nanousd != expected:
            verdict.note("wrong", f"{tag}: charged {row.charge_nanousd}, not {expected}")
    if answer.is_whole and answer.status == 200:
        charge = sum(row.charge_nanousd for row in rows)
        is_ok = rows[-1].outcome == "ok" and ledger == made and answer.cost_nanousd == charge
        if not is_ok:
            verdict.note("wrong", f"{tag}: {answer}, {rows}, sent {made}")


def check_sums(connection: psycopg.Connection, verdict: Verdict) -> None:
    """The hourly sums are those of the rows, to the token."""
    names = "prompt_tokens", "cached_tokens", "output_tokens", "charge_nanousd"
    columns = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
    rows = connection.execute(f"select count(*), {columns} from usage_attempts").fetchone()
    sums = connection.execute(f"select sum(attempts), {columns} from usage_hours").fetchone()
    if rows != sums:
        verdict.note("double", f"sums {sums} are not those of the rows, {rows}")


def settle(
    connection: psycopg.Connection,
    engine: ScriptedEngine,
    heard: Mapping[str, Heard],
    *,
    seconds: float,
    also: Callable[[list[Row], Verdict], None] | None = None,
) -> Verdict:
    """The verdict as soon as it is good, or as it is when the time is up, in words then."""
    eventually(lambda: engine.state().running == 0)
    sent = read_sent(engine)
    verdict = Verdict()

    def is_good() -> bool:
        nonlocal verdict
        rows = read_rows(connection)
        verdict = check(rows, sent, heard)
        check_sums(connection, verdict)
        if also is not None:
            also(rows, verdict)
        return verdict.is_good

    try:
        eventually(is_good, seconds)
    except AssertionError:
        print("\n".join(verdict.cases), flush=True)
    return verdict
