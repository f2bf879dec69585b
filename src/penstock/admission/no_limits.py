"""Replaces limits where jobs run: the limits of jobs were applied at submission."""

from penstock.admission.hold import NO_HOLD, Hold
from penstock.records.account import AccountId, KeyId
from penstock.records.request import InferenceRequest


class NoLimits:
    """Reserves nothing, and never asks Postgres."""

    def reserve(self, request: InferenceRequest) -> Hold:
        return NO_HOLD

    def count_refused(self, account: AccountId, key: KeyId) -> None: ...

    async def lease(self, request: InferenceRequest) -> Hold:
        return self.reserve(request)
