"""A fixed piece of work, whose CPU time says how fast this machine is at this moment.

About a millisecond on the machine that docs/measurements.md names, when it is quiet. A figure that
is divided by it can be compared with one from a slower machine, or from a busier minute.
"""

import time

_STEPS = 12_000


def loop_microseconds() -> float:
    """CPU time of one run: small integers, a dictionary, a loop, as our own code is made of."""
    start = time.process_time_ns()
    seen: dict[int, int] = {}
    total = 0
    for number in range(_STEPS):
        seen[number & 255] = total
        total += seen.get(number & 127, 1) & 7
    return (time.process_time_ns() - start) / 1000
