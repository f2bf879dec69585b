"""The KV cache of one simulated engine: blocks, who holds them, and what is still in free ones.

As in vLLM V1: a block that nobody holds is free but keeps its content until it is needed, the
least recently used first, and a prompt hits as many leading blocks as are still there.
"""

from collections import OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 512
_NOTHING = -1


def blocks_of(tokens: int) -> int:
    """How many blocks it takes to hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class BlockCache:
    """`size` blocks, counted by holder. Contents are ids of 512-token prefixes of the trace."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._holders = [0] * size
        self._content = [_NOTHING] * size
        self._block_of: dict[int, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(size))

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def use(self) -> float:
        """The share of the blocks that somebody holds."""
        return 1 - len(self._free) / self.size

    def count_hits(self, contents: Sequence[int]) -> int:
        """How many leading contents are there."""
        block_of = self._block_of
        count = 0
        for content in contents:
            if content not in block_of:
                break
            count += 1
        return count

    def count_unheld(self, contents: Sequence[int]) -> int:
        """How many of these contents, all there, would be taken out of the free blocks."""
        return sum(not self._holders[self._block_of[content]] for content in contents)

    def share(self, contents: Sequence[int]) -> list[int]:
        """Hold the blocks of these contents, all there."""
        blocks = [self._block_of[content] for content in contents]
        for block in blocks:
            if not self._holders[block]:
                del self._free[block]
            self._holders[block] += 1
        return blocks

    def take(self, count: int) -> list[int]:
        """Hold so many free blocks, forgetting what was in them. The caller has seen that they are
        there."""
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            content = self._content[block]
            if content != _NOTHING:
                del self._block_of[content]
                self._content[block] = _NOTHING
            self._holders[block] = 1
        return blocks

    def fill(self, block: int, content: int) -> None:
        """This block now has that content, unless another one has it already."""
        if content not in self._block_of and self._content[block] == _NOTHING:
            self._block_of[content] = block
            self._content[block] = content

    def release(self, blocks: list[int]) -> None:
        """Let go, the last block first, so that the tails of prompts are forgotten first."""
        holders, free = self._holders, self._free
        for block in reversed(blocks):
            holders[block] -= 1
            if not holders[block]:
                free[block] = None
