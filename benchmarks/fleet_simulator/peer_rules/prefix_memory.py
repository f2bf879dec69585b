"""What a peer's gateway remembers to have sent to a replica, as a guess of what is cached there."""

from collections import OrderedDict
from collections.abc import Sequence

_SHRINK = 0.98
_GROW = 1.01
_FACTOR_MIN = 0.05


class PrefixMemory:
    """Blocks by last use, at most `size` times a factor that is learned from real hits.

    Without a size it grows without end, as the SGLang router's tree does between its sweeps.
    """

    def __init__(self, size: int | None, factor: float) -> None:
        self._size = size
        self._factor = factor
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def count_hits(self, blocks: Sequence[int]) -> int:
        known = self._blocks
        count = 0
        for block in blocks:
            if block not in known:
                break
            count += 1
        return count

    def add(self, blocks: Sequence[int]) -> None:
        """The last block first, so that the tails of prompts are forgotten first."""
        known = self._blocks
        for block in reversed(blocks):
            known[block] = None
            known.move_to_end(block)
        if self._size is not None:
            limit = self._size * self._factor
            while len(known) > limit:
                known.popitem(last=False)

    def learn(self, *, expected: int, cached: int) -> None:
        """In blocks: shrink after a guess that was too high, grow after a good one."""
        if cached < expected - 1:
            self._factor = max(_FACTOR_MIN, self._factor * _SHRINK)
        elif cached >= expected > 2:
            self._factor = min(1.0, self._factor * _GROW)
