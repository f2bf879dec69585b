"""Learns from answers how many tokens a byte of prompt makes, for each model."""

from typing import Final

from penstock.records.model import ModelId

_KEEP: Final = 0.99
# The weight of the first guess, in bytes: a few answers outweigh it.
_FIRST_BYTES: Final = 50_000.0


class _Sums:
    """Decaying sums of prompt tokens and of their bytes."""

    def __init__(self, tokens: float, size: float) -> None:
        self.tokens = tokens
        self.size = size


class PromptSizes:
    """A decaying mean for each model, beginning at the setting. Bounded by the catalogue."""

    def __init__(self, bytes_per_token: float) -> None:
        self._first = 1.0 / bytes_per_token
        self._sums: dict[ModelId, _Sums] = {}

    def tokens_per_byte(self, model: ModelId) -> float:
        sums = self._sums.get(model)
        return self._first if sums is None else sums.tokens / sums.size

    def teach(self, model: ModelId, tokens: int, size: int) -> None:
        """Record that `size` bytes of a prompt were `tokens` tokens."""
        if tokens <= 0 or size <= 0:
            return
        sums = self._sums.get(model)
        if sums is None:
            sums = self._sums[model] = _Sums(_FIRST_BYTES * self._first, _FIRST_BYTES)
        sums.tokens = sums.tokens * _KEEP + tokens
        sums.size = sums.size * _KEEP + size
