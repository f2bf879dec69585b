"""How many tokens a byte of prompt is, by model, as the answers teach it."""

from penstock.records.model import ModelId

_KEEP = 0.99
# The first guess weighs as much as so many bytes: a few answers outweigh it.
_FIRST_BYTES = 50_000.0


class PromptSizes:
    """A decaying mean for each model, beginning at the setting. Bounded by the catalogue."""

    def __init__(self, bytes_per_token: float) -> None:
        self._first = 1.0 / bytes_per_token
        self._sums: dict[ModelId, list[float]] = {}

    def tokens_per_byte(self, model: ModelId) -> float:
        sums = self._sums.get(model)
        return sums[0] / sums[1] if sums else self._first

    def teach(self, model: ModelId, tokens: int, size: int) -> None:
        """So many bytes were so many tokens."""
        if tokens <= 0 or size <= 0:
            return
        sums = self._sums.get(model)
        if sums is None:
            sums = self._sums[model] = [_FIRST_BYTES * self._first, _FIRST_BYTES]
        sums[0] = sums[0] * _KEEP + tokens
        sums[1] = sums[1] * _KEEP + size
