"""Moving averages of the queue's rates, and the wait they imply for a queued job."""

import math


def blend(old: float | None, sample: float, seconds: float, window_seconds: float) -> float:
    """Return an exponential moving average over the window; the first sample is used as it is."""
    if old is None:
        return sample
    return old + (sample - old) * (1 - math.exp(-max(seconds, 0.0) / window_seconds))


def wait_seconds(
    position: int, queued: int, share: float, finished_per_second: float | None
) -> float | None:
    """Estimate when the job at `position` of its account begins, from its account's share.

    Never longer than the whole queue takes. None without a rate, and with nothing `queued`: the
    rate then measures how fast jobs arrived, not how fast they can end.
    """
    if not finished_per_second or not queued:
        return None
    whole_queue = max(queued, position) / finished_per_second
    own_rate = finished_per_second * share
    return min(position / own_rate, whole_queue) if own_rate else whole_queue
