"""The refusal while a model's only replicas start: how long that takes, and when to ask again."""

import math
from typing import Final

from penstock.errors import NoReplica
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaStart

# Clients such as OpenAI's wait for at most 60 s; a longer time makes them use their own short one.
_SECONDS_MAX: Final = 60
# For a start whose length is unknown, or that takes longer than the last one.
_SECONDS_UNKNOWN: Final = 10


def still_starting(model: ModelId, start: ReplicaStart) -> NoReplica:
    """Return the refusal. It expects this start to take as long as the model's last one."""
    last = start.last_seconds
    told = f"A replica of {model} is starting, {start.elapsed_seconds:.0f} s so far"
    told += f"; the last start took {last:.0f} s." if last is not None else "."
    left = 0.0 if last is None else last - start.elapsed_seconds
    wait = min(_SECONDS_MAX, math.ceil(left)) if left > 0 else _SECONDS_UNKNOWN
    return NoReplica(told, retry_after_seconds=wait)
