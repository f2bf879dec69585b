"""How long a job that failed waits before it is tried again."""

from penstock.queue.settings import QueueSettings


def pause_seconds(attempts: int, settings: QueueSettings) -> float:
    """Doubles with each attempt, from `retry_seconds` up to `retry_seconds_max`."""
    # Beyond 2**30 the maximum has long been reached, and a float can still hold it.
    doubled = settings.retry_seconds * 2.0 ** min(max(attempts - 1, 0), 30)
    return min(doubled, settings.retry_seconds_max)
