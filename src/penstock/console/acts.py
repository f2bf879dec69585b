"""Writes each act of administration into the log of decisions, with who did it.

The row is written before the act, so no act goes unseen; one that failed has a second row. Facts
are the fields of the question; of long texts, such as contracts, only their length and digest.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from penstock.console.operation import Answered, Asked, Operation
from penstock.console.rooms import OperatorRooms
from penstock.contracts.decision_book import DecisionBook
from penstock.errors import Error, InternalError
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision

# Who acts where a command goes to the database itself.
DATABASE: Final = "database"
_TEXT_MAX: Final = 64


async def run_logged(
    operation: Operation[Asked, Answered], rooms: OperatorRooms, asked: Asked
) -> Answered:
    """Run an operation; one that may change something is logged first."""
    if operation.is_reading:
        return await operation.run(rooms, asked)
    act, actor = _act(operation, asked), rooms.actor or DATABASE
    return await log_around(rooms.decisions, actor, act, lambda: operation.run(rooms, asked))


async def log_around(
    decisions: DecisionBook, actor: str, act: LoggedDecision, run: Callable[[], Awaitable[Answered]]
) -> Answered:
    """Log an act, and then run it."""
    await decisions.note_act(actor, act)
    try:
        return await run()
    except Exception as failed:
        code = failed.code if isinstance(failed, Error) else InternalError.code
        denied = msgspec.structs.replace(act, verdict=DecisionVerdict.DENY, reason=code)
        await decisions.note_act(actor, denied)
        raise


async def log_refused(
    operation: Operation[Any, Any], rooms: OperatorRooms, actor: str, reason: str
) -> None:
    """Log an act that a key tried which may not change anything."""
    decision = LoggedDecision(
        kind=DecisionKind.OPERATOR,
        verdict=DecisionVerdict.DENY,
        subjects=(operation.name,),
        reason=reason,
    )
    await rooms.decisions.note_act(actor, decision)


def _act(operation: Operation[Any, Any], asked: msgspec.Struct) -> LoggedDecision:
    fields: dict[str, Any] = msgspec.to_builtins(asked)
    targets = [str(fields.pop(name)) for name in operation.path_fields]
    facts: dict[str, str | int] = {}
    for name, value in fields.items():
        facts |= _facts_of(name, value)
    return LoggedDecision(
        kind=DecisionKind.OPERATOR,
        verdict=DecisionVerdict.ALLOW,
        subjects=(operation.name, *targets),
        facts=facts,
    )


def _facts_of(name: str, value: object) -> dict[str, str | int]:
    if value is None or value == "":
        return {}
    if isinstance(value, bool):
        return {name: str(value).lower()}
    if isinstance(value, int) and abs(value) < 2**53:
        return {name: value}
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= _TEXT_MAX:
        return {name: text}
    encoded = text.encode()
    return {f"{name}_bytes": len(encoded), f"{name}_sha256": hashlib.sha256(encoded).hexdigest()}
