"""Numbers one writer's decisions without gaps, and chains each to the one before by its hash. Pure.

    hash = SHA-256(previous hash, line)

A line is the JSON array of a row's values. Whoever has the rows can compute the hashes again: a
changed, missing or moved row breaks the chain where it stood. There is one chain for each `keep`,
so that rows which are kept for a short time may go without breaking the others' chain.
"""

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.decision_log import DecidedRequest

# The hash before the first row of a chain.
GENESIS: Final = bytes(32)
# A row stays below what a journal's reader takes for one frame that a kill cut off.
_SUBJECTS_MAX: Final = 16
_FACTS_MAX: Final = 12
_NAME_MAX: Final = 32
_TEXT_MAX: Final = 64
_LABEL_MAX: Final = 128
_CUT: Final = "…"


class Keep(StrEnum):
    """How long a decision is kept; calls that are allowed are many, and go first."""

    LONG = "long"
    SHORT = "short"


class DecisionLine(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One row of the log, in the order in which it is hashed. `at_us` counts from 1970."""

    keep: Keep
    holder: str
    sequence: int
    at_us: int
    request: str
    account: str
    key: str
    workflow: str
    contract: str
    # As text: rows of a later release, whose kinds are unknown here, are verified too.
    kind: str
    verdict: str
    is_observed: bool
    subjects: tuple[str, ...]
    reason: str
    facts: dict[str, str | int]
    actor: str


# Names in `facts` are sorted, because Postgres does not keep their order.
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def hash_of(previous: bytes, line: DecisionLine) -> bytes:
    """Return a row's hash."""
    return hashlib.sha256(previous + _encode(line)).digest()


def staged_line(previous: bytes, line: DecisionLine) -> tuple[bytes, bytes]:
    """Return a row as a line for COPY, and its hash."""
    encoded = _encode(line)
    digest = hashlib.sha256(previous + encoded).digest()
    # In JSON without control characters, the backslash is all that COPY would take as its own.
    written = encoded.replace(b"\\", b"\\\\")
    return b"%s\t%s\t%s\n" % (previous.hex().encode(), digest.hex().encode(), written), digest


class ChainPlace(msgspec.Struct, frozen=True):
    """Where a row stands in its chain, and when it was written."""

    keep: Keep
    holder: str
    sequence: int
    at_us: int


class _Chain:
    """The end of one chain."""

    def __init__(self) -> None:
        self.sequence = 0
        self.at_us = 0
        self.hash = GENESIS


class DecisionChains:
    """The chains of one writer. A row counts once `advance` was called, after it was written."""

    def __init__(self, holder: str) -> None:
        self._holder = holder
        self._chains = {keep: _Chain() for keep in Keep}

    def next_line(
        self, at_us: int, decided: DecidedRequest, decision: LoggedDecision
    ) -> DecisionLine:
        """Return a decision as the next row of its chain."""
        keep = keep_of(decision)
        chain = self._chains[keep]
        # Days are dropped whole: a clock that goes back must not scatter a chain over them.
        place = ChainPlace(keep, self._holder, chain.sequence + 1, max(at_us, chain.at_us))
        return made_line(place, decided, decision)

    def staged(self, line: DecisionLine) -> tuple[bytes, bytes]:
        return staged_line(self._chains[line.keep].hash, line)

    def advance(self, line: DecisionLine, digest: bytes) -> None:
        """Note that a row was written."""
        chain = self._chains[line.keep]
        chain.sequence, chain.at_us, chain.hash = line.sequence, line.at_us, digest


def keep_of(decision: LoggedDecision) -> Keep:
    is_plain = decision.kind is DecisionKind.TOOL_CALL and decision.verdict is DecisionVerdict.ALLOW
    return Keep.SHORT if is_plain else Keep.LONG


def made_line(
    place: ChainPlace, decided: DecidedRequest, decision: LoggedDecision, actor: str = ""
) -> DecisionLine:
    """Return a row with every text bounded: names of tools come from models and callers."""
    facts = dict(decision.facts)
    left_out = len(decision.subjects) - _SUBJECTS_MAX
    if left_out > 0:
        facts["subjects_left_out"] = left_out
    return DecisionLine(
        keep=place.keep,
        holder=place.holder,
        sequence=place.sequence,
        at_us=place.at_us,
        request=decided.id,
        account=_bounded(decided.account, _LABEL_MAX),
        key=_bounded(decided.key, _LABEL_MAX),
        workflow=_bounded(decided.workflow, _LABEL_MAX),
        contract=_bounded(decided.contract, _LABEL_MAX),
        kind=decision.kind,
        verdict=decision.verdict,
        is_observed=decision.is_observed,
        subjects=_bounded_all(decision.subjects),
        reason=_bounded(decision.reason, _LABEL_MAX),
        facts=_bounded_facts(facts),
        actor=_bounded(actor, _LABEL_MAX),
    )


def _bounded_all(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(_bounded(each, _TEXT_MAX) for each in texts[:_SUBJECTS_MAX])


def _bounded_facts(facts: dict[str, str | int]) -> dict[str, str | int]:
    return {
        _bounded(name, _NAME_MAX): _bounded(value, _TEXT_MAX) if isinstance(value, str) else value
        for name, value in list(facts.items())[:_FACTS_MAX]
    }


def _bounded(text: str, most: int) -> str:
    """Return a text without what cannot be printed or stored, cut where it is too long."""
    if len(text) > most:
        text = text[: most - 1] + _CUT
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
