"""The statements on the log of decisions, and the records that its rows become."""

from datetime import UTC, date, datetime
from typing import Final

import msgspec

from penstock.contracts.decision_chain import DecisionLine, Keep
from penstock.store import read_queries
from penstock.store.pool import Row
from penstock.wire.resources.decisions import DecisionAnswer, DecisionChainPlace

SQL: Final = read_queries("penstock.contracts", "decisions.sql")


class ChainHead(msgspec.Struct, frozen=True):
    """A row of a chain by its number and hash: the last one, or the last that was dropped."""

    keep: Keep
    holder: str
    sequence: int
    hash: str
    # The day of the row; None of a row that was dropped.
    day: date | None = None


class DecisionRow(msgspec.Struct, frozen=True):
    """One row of the log, with its hash and the one before it, as hexadecimal digits."""

    line: DecisionLine
    previous: str
    hash: str

    def head(self, day: date) -> ChainHead:
        """Return the row, which stands under a day, as a place in its chain."""
        line = self.line
        return ChainHead(line.keep, line.holder, line.sequence, self.hash, day)

    def answer(self) -> DecisionAnswer:
        """Return the row as callers and commands get it."""
        line = self.line
        return DecisionAnswer(
            at=datetime.fromtimestamp(line.at_us / 1e6, UTC),
            request=line.request or None,
            account=line.account,
            key=line.key,
            workflow=line.workflow,
            contract=line.contract,
            kind=line.kind,
            verdict=line.verdict,
            is_observed=line.is_observed,
            subjects=line.subjects,
            reason=line.reason,
            facts=line.facts,
            actor=line.actor,
            chain=DecisionChainPlace(
                line.keep, line.holder, line.sequence, self.previous, self.hash
            ),
        )


def row_from(row: Row) -> DecisionRow:
    """Return the record of a row, whose columns are `columns` in decisions.sql."""
    *values, previous, digest = row
    try:
        line = msgspec.convert(values, DecisionLine)
    except msgspec.ValidationError:
        # Somebody else wrote it. Without these two it is a row, whose hash does not fit.
        *before, _, reason, _, actor = values
        line = msgspec.convert([*before, (), reason, {}, actor], DecisionLine)
    return DecisionRow(line, bytes(previous).hex(), bytes(digest).hex())


def head_from(row: Row) -> ChainHead:
    keep, holder, sequence, digest, day = row
    return ChainHead(Keep(keep), holder, sequence, bytes(digest).hex(), day)
