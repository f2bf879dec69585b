"""Decides how long to wait after a failed delivery, and when to give it up. Pure."""

from typing import Final

from penstock.events.settings import WebhookSettings

_FACTOR: Final = 4.0
_JITTER: Final = 0.2


def retry_seconds(attempts: int, chance: float, settings: WebhookSettings) -> float | None:
    """Return the pause after a try, shortened by `chance` by up to a fifth; None = give up.

    By default 5 s, 20 s, 80 s, … 24 h: ten tries in about two days.
    """
    assert attempts >= 1
    if attempts >= settings.attempts_max:
        return None
    # The exponent is bounded so that the float does not overflow.
    pause = settings.retry_seconds_min * _FACTOR ** min(attempts - 1, 50)
    return min(pause, settings.retry_seconds_max) * (1 - _JITTER * chance)
