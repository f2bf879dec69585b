"""Writes a worker's decisions into its journal, chained, before their effect leaves.

The drain copies them into Postgres with the attempts, so they survive an outage and a kill as usage
does. A decision that cannot be written raises JournalFull: then its effect must not leave either.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.clock import Clock
from penstock.contracts.decision_chain import DecisionChains
from penstock.records.decision import LoggedDecision
from penstock.records.decision_log import DecidedRequest, DecisionLog


class DecisionJournal(Protocol):
    """The port to the worker's journal."""

    @property
    def holder(self) -> str: ...

    def decide(self, text: bytes) -> None: ...


class JournaledDecisions(DecisionLog):
    """The log of one worker. Only its event loop may write."""

    def __init__(self, journal: DecisionJournal, clock: Clock) -> None:
        self._journal = journal
        self._chains = DecisionChains(journal.holder)
        self._now = clock.now
        # By "kind verdict".
        self.written: dict[str, int] = {}

    def write(self, decided: DecidedRequest, decisions: Sequence[LoggedDecision]) -> None:
        at_us = int(self._now() * 1e6)
        for decision in decisions:
            line = self._chains.next_line(at_us, decided, decision)
            text, digest = self._chains.staged(line)
            self._journal.decide(text)
            self._chains.advance(line, digest)
            name = f"{decision.kind} {decision.verdict}"
            self.written[name] = self.written.get(name, 0) + 1
