"""Marks the errors by which contracts refuse requests, and logs them before they are sent."""

from typing import TypeVar

import msgspec

from penstock.errors import Error, OverLimit
from penstock.records.account import Key
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.limit import Scope, Standing

Refusal = TypeVar("Refusal", bound=Error)


class ContractRefusal(msgspec.Struct, frozen=True):
    """The decision that an error is. `contract` is a label; "" where a bound key refused."""

    contract: str
    workflow: str
    decision: LoggedDecision


def by_contract(
    error: Refusal, contract: str, workflow: str, kind: DecisionKind, *subjects: str
) -> Refusal:
    """Return the error, marked as the refusal of a contract that is enforced."""
    decision = LoggedDecision(
        kind=kind,
        verdict=DecisionVerdict.DENY,
        subjects=subjects,
        reason=error.code,
    )
    error.decided = ContractRefusal(contract, workflow, decision)
    return error


def by_owned_limit(error: OverLimit, contract: str, workflow: str) -> None:
    """Mark a refusal by a limit that a contract owns; others are no decisions of contracts."""
    if error.contract:
        kind = DecisionKind.SESSION_CAP if error.is_of_session else DecisionKind.BUDGET
        by_contract(error, contract, workflow, kind)


def would_refuse(passed: Standing) -> LoggedDecision | None:
    """Return the decision of a contract that only observes that its limit is passed."""
    limit = passed.limit
    if not limit.contract:
        return None
    return LoggedDecision(
        kind=DecisionKind.SESSION_CAP if limit.scope is Scope.SESSION else DecisionKind.BUDGET,
        verdict=DecisionVerdict.DENY,
        reason=f"{limit.measure}_per_{limit.period}",
        is_observed=True,
    )


def log_refusal(log: DecisionLog, request: str, key: Key | None, error: Error) -> None:
    """Log an error that is the refusal of a contract; JournalFull if that is not possible."""
    refusal = error.decided
    if not isinstance(refusal, ContractRefusal):
        return
    decided = DecidedRequest(
        id=request,
        account="" if key is None or key.account is None else key.account.id,
        key="" if key is None else key.id,
        workflow=refusal.workflow,
        contract=refusal.contract,
    )
    log.write(decided, (refusal.decision,))
