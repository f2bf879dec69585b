"""What a contract is asked about a request, and what it changes of that."""

import msgspec

from penstock.records.account import Key
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.wire.apis.request_facts import RequestFacts


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of itself; `api` is a name that rules know."""

    key: Key
    workflow: str
    task: str
    model: str
    api: str
    facts: RequestFacts


class Effect(msgspec.Struct, frozen=True):
    """One thing that a contract changes, or would change if it did not only observe.

    `kind` and `value` are what headers and counters say; the rest is for the log of decisions.
    """

    kind: str
    value: str
    decided: DecisionKind
    verdict: DecisionVerdict = DecisionVerdict.CHANGE
    subjects: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}={self.value}"
