"""Averages of what was measured lately, and what they tell one who waits."""

import math


def blend(old: float | None, sample: float, seconds: float, window_seconds: float) -> float:
    """An average in which what is older than the window fades; the first sample stands alone."""
    if old is None:
        return sample
    return old + (sample - old) * (1 - math.exp(-max(seconds, 0.0) / window_seconds))


def wait_seconds(
    position: int, queued: int, share: float, finished_per_second: float | None
) -> float | None:
    """Until the job at `position` of its account begins: its account's share of the rate.

    Never longer than all that is queued takes. None: there is nothing to go by. Where nothing was
    `queued` when the rate was measured, it tells how fast jobs came, not how fast they can end.
    """
    if not finished_per_second or not queued:
        return None
    whole_queue = max(queued, position) / finished_per_second
    own_rate = finished_per_second * share
    return min(position / own_rate, whole_queue) if own_rate else whole_queue
