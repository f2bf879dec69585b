"""Chooses a host's GPUs for one replica. Pure.

Guarantees: whole GPUs; none that a replica holds which has not ended, whether it starts, serves or
drains; none in whose memory other programs hold more than they may.
"""

from collections.abc import Collection, Sequence

import msgspec

from penstock.records.host import Gpu, gpus_in_words


class NoRoom(msgspec.Struct, frozen=True):
    """Why there are no GPUs for a replica, for people."""

    reason: str


def assign(
    gpus: Sequence[Gpu], held: Collection[str], count: int, foreign_mb_max: int
) -> tuple[Gpu, ...] | NoRoom:
    """Return `count` GPUs by index, neighbours if possible; or why there are not that many."""
    left = [gpu for gpu in gpus if gpu.id not in held]
    # No replica holds these, so what is used of them is used by programs that are not ours.
    free = [gpu for gpu in left if gpu.used_mb <= foreign_mb_max]
    if len(free) < count:
        return NoRoom(_reason(len(gpus), len(gpus) - len(left), len(left) - len(free), count))
    runs = _runs(free)
    fitting = [run for run in runs if len(run) >= count]
    if fitting:
        # The shortest that fits keeps longer runs for larger replicas.
        return tuple(min(fitting, key=len)[:count])
    by_length = sorted(runs, key=len, reverse=True)
    chosen = [gpu for run in by_length for gpu in run][:count]
    return tuple(sorted(chosen, key=lambda gpu: gpu.index))


def _runs(free: Sequence[Gpu]) -> list[list[Gpu]]:
    """Return the GPUs in runs of neighbouring indices: those are mostly linked most closely."""
    runs: list[list[Gpu]] = []
    for gpu in sorted(free, key=lambda gpu: gpu.index):
        if runs and runs[-1][-1].index == gpu.index - 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return runs


def _reason(all_: int, held: int, foreign: int, count: int) -> str:
    needed = gpus_in_words(count)
    if not all_:
        return f"needs {needed}; this host has none"
    taken = [f"{held} are held by replicas"] if held else []
    taken += [f"{foreign} are used by other programs"] if foreign else []
    return f"needs {needed}; of {all_} here " + (" and ".join(taken) or "none are held")
