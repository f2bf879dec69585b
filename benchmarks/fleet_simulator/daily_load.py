"""Makes a day of traffic from a trace: more and fewer users as a sine, none of them faster."""

import math
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from fleet_simulator.flight import TraceRequest


class DailyLoad(msgspec.Struct, frozen=True):
    """The load is at its lowest at the start and the end, and at its peak in the middle."""

    seconds: float
    # How many services like the trace's there are at the peak.
    copies: int
    peak_to_trough: float = 4.0

    def share(self, at: float) -> float:
        """Return the load as a share of the peak's."""
        low = 1 / self.peak_to_trough
        middle, swing = (1 + low) / 2, (1 - low) / 2
        return middle - swing * math.cos(2 * math.pi * at / self.seconds)


def make_day(requests: Sequence[TraceRequest], load: DailyLoad, seed: int) -> list[TraceRequest]:
    """Return the day in order of time. Each copy begins elsewhere in the trace, with own prompts.

    Whole sessions are left out, by the load at their first request.
    """
    random = Random(seed)
    length = requests[-1].at + 1.0
    laps = math.ceil(load.seconds / length) + 1
    found: list[TraceRequest] = []
    for copy in range(load.copies):
        begin = random.random() * length
        for lap in range(laps):
            found += _lap(requests, load, random, lap * length - begin, copy * laps + lap)
    return sorted(found, key=lambda request: request.at)


def _lap(
    requests: Sequence[TraceRequest], load: DailyLoad, random: Random, begin: float, number: int
) -> Iterator[TraceRequest]:
    blocks = 1 + max(max(request.blocks, default=0) for request in requests)
    sessions = 1 + max(request.session for request in requests)
    kept: dict[int, bool] = {}
    for request in requests:
        at = begin + request.at
        if not 0 <= at < load.seconds:
            continue
        if request.session not in kept:
            kept[request.session] = random.random() < load.share(at)
        if kept[request.session]:
            yield msgspec.structs.replace(
                request,
                at=at,
                session=request.session + number * sessions,
                blocks=tuple(block + number * blocks for block in request.blocks),
            )
