"""A budget for retries, so that repeated requests do not overload a failing fleet. Pure."""

from penstock.serving.settings import ServingSettings

_WINDOW_SECONDS = 10.0


class RetryBudget:
    """Allows `retry_share_max` of the requests of the current ten seconds, and a small burst."""

    def __init__(self, settings: ServingSettings) -> None:
        self._settings = settings
        self._window_start = 0.0
        self._requests = 0
        self._retries = 0

    def note_request(self, now: float) -> None:
        if now - self._window_start >= _WINDOW_SECONDS:
            self._window_start, self._requests, self._retries = now, 0, 0
        self._requests += 1

    def allow_retry(self) -> bool:
        """Take one retry out of the budget, if there is one."""
        allowed = self._settings.retry_burst + self._requests * self._settings.retry_share_max
        if self._retries + 1 > allowed:
            return False
        self._retries += 1
        return True
