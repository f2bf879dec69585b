"""Imitates a prefix cache: records which blocks of prompts the engine has seen, by salt.

A token is four bytes of the rendered prompt, a block is sixteen tokens, and a block hits only if
all blocks before it do. The least recently used blocks are forgotten first.
"""

from collections import OrderedDict

BYTES_PER_TOKEN = 4
TOKENS_PER_BLOCK = 16
_BLOCK_BYTES = BYTES_PER_TOKEN * TOKENS_PER_BLOCK


def count_tokens(prompt: bytes) -> int:
    return -(-len(prompt) // BYTES_PER_TOKEN)


class PrefixBlocks:
    """The blocks held, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queried_tokens = 0
        self.hit_tokens = 0
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def admit(self, prompt: bytes, salt: str) -> int:
        """Hold this prompt, and return how many of its leading tokens were held before.

        The last token is always computed, as in vLLM, so a whole prompt never hits.
        """
        keys = _chain(prompt, salt)
        reusable = (len(prompt) - 1) // _BLOCK_BYTES
        hits = 0
        for key in keys[:reusable]:
            if key not in self._blocks:
                break
            hits += 1
        self._hold(keys)
        self.queried_tokens += count_tokens(prompt)
        self.hit_tokens += hits * TOKENS_PER_BLOCK
        return hits * TOKENS_PER_BLOCK

    def extend(self, prompt: bytes, salt: str) -> None:
        """Hold a prompt together with its answer, which must be complete."""
        self._hold(_chain(prompt, salt))

    def _hold(self, keys: list[int]) -> None:
        for key in keys:
            self._blocks[key] = None
            self._blocks.move_to_end(key)
        while len(self._blocks) > self.capacity:
            self._blocks.popitem(last=False)


def _chain(prompt: bytes, salt: str) -> list[int]:
    keys = []
    key = hash(salt)
    for start in range(0, len(prompt) - _BLOCK_BYTES + 1, _BLOCK_BYTES):
        key = hash((key, prompt[start : start + _BLOCK_BYTES]))
        keys.append(key)
    return keys
