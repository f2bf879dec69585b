"""Computes how long a failed job waits before it is retried."""

from penstock.queue.settings import QueueSettings


def pause_seconds(attempts: int, settings: QueueSettings) -> float:
    """Return the pause, which doubles per attempt from `retry_seconds` to `retry_seconds_max`."""
    # The exponent is capped at 30, so that the power cannot overflow a float.
    doubled = settings.retry_seconds * 2.0 ** min(max(attempts - 1, 0), 30)
    return min(doubled, settings.retry_seconds_max)
