"""The port to the log of decisions, and the request that decisions are about."""

from collections.abc import Sequence

import msgspec

from penstock.records.decision import LoggedDecision
from penstock.records.request import InferenceRequest


class DecidedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request that decisions are about. `contract` is its label, such as `code-review@7`."""

    id: str
    account: str
    key: str
    workflow: str
    contract: str

    @classmethod
    def of(cls, request: InferenceRequest) -> "DecidedRequest":
        return cls(
            id=request.id,
            account=request.account,
            key=request.key,
            workflow=request.labels.workflow,
            contract=request.labels.contract,
        )


class DecisionLog:
    """Writes decisions before their effect leaves. A class, so that compiled code calls it.

    This base class keeps none: it is for processes and benchmarks without a journal.
    """

    def write(self, decided: DecidedRequest, decisions: Sequence[LoggedDecision]) -> None:
        """Write decisions about one request; JournalFull if that is not possible."""
