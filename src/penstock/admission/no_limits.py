"""No limits at all: what stands in for them where jobs run. Theirs were heeded at submission."""

from penstock.admission.hold import NO_HOLD, Hold
from penstock.records.account import AccountId, KeyId
from penstock.records.request import InferenceRequest


class NoLimits:
    """Reserves nothing, and asks nobody."""

    def reserve(self, request: InferenceRequest) -> Hold:
        return NO_HOLD

    def count_refused(self, account: AccountId, key: KeyId) -> None: ...

    async def lease(self, request: InferenceRequest) -> Hold:
        return self.reserve(request)
