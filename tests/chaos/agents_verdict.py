"""What is left of background responses when everybody is quiet: is every promise kept?"""

import time

import msgspec
import psycopg

_DRAIN_SECONDS = 30.0
# Charges of the responses' jobs: how many each has, and how many responses wait for ever.
_BILLED = """
    select j.id::text, j.state, r.status,
           (select count(*) from usage_attempts u where u.request = j.id and u.charge_nanousd > 0)
    from jobs j left join responses r on r.id = j.id where j.door = 'responses'
"""
_OPEN = "select count(*) from responses where is_background and status = 'queued'"


class AgentFindings(msgspec.Struct):
    """The first six are the agreed ones; `lost` to `stuck` must be 0."""

    responses: int = 0
    lost: int = 0
    billed_twice: int = 0
    gaps: int = 0
    stuck: int = 0
    kills: int = 0
    # Responses that nobody asked for, or that have no charge.
    billed_wrongly: int = 0
    # How often a reader was cut off and went on.
    resumed: int = 0
    seconds: float = 0.0
    problems: list[str] = []

    def note(self, name: str, what: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        if len(self.problems) < 10:
            self.problems = [*self.problems, f"{name}: {what}"]

    def as_json(self) -> str:
        fields = {n: v for n, v in msgspec.structs.asdict(self).items() if n != "problems"}
        return msgspec.json.encode(fields).decode()

    def is_good(self, responses: int, kills: int) -> bool:
        broken = (self.lost, self.billed_twice, self.gaps, self.stuck, self.billed_wrongly)
        return self.responses >= responses and self.kills >= kills and not any(broken)


def check_books(dsn: str, findings: AgentFindings) -> None:
    """Each response has one job, which has one charge."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            rows = connection.execute(_BILLED).fetchall()
            waits = [row for row in rows if row[1] in {"queued", "running"} or not row[3]]
            if not waits or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        row = connection.execute(_OPEN).fetchone()
    assert row is not None
    if row[0]:
        findings.note("stuck", f"{row[0]} responses are open")
    for job, state, status, charges in rows:
        if charges > 1:
            findings.note("billed_twice", f"{job} has {charges} charges")
        elif (state, status, charges) != ("succeeded", "completed", 1):
            findings.note("billed_wrongly", f"{job}: {state}, {status}, {charges} charges")
    if len(rows) != findings.responses:
        findings.note("billed_wrongly", f"{len(rows)} jobs for {findings.responses} responses")
