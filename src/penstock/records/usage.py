"""Tokens that a request used. Unknown is None, never 0."""

from typing import Final


class Usage:
    """Token counts. `cached_tokens` is the part of `prompt_tokens` read from the prefix cache.

    `is_estimated` marks counts that the gateway estimated because the engine did not report them.
    """

    def __init__(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int | None = None,
        *,
        is_estimated: bool = False,
    ) -> None:
        self.prompt_tokens: Final = prompt_tokens
        self.completion_tokens: Final = completion_tokens
        self.cached_tokens: Final = cached_tokens
        self.is_estimated: Final = is_estimated

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self._counts() == other._counts()

    def __hash__(self) -> int:
        return hash(self._counts())

    def __repr__(self) -> str:
        return f"Usage{self._counts()}"

    def _counts(self) -> tuple[int, int, int | None, bool]:
        return self.prompt_tokens, self.completion_tokens, self.cached_tokens, self.is_estimated
