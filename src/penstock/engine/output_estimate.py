"""Estimates an answer's usage from the events relayed so far, until its engine reports it."""

from typing import Final

from penstock.records.usage import Usage

# Twice the length of a token in ordinary text, so that an event with one token counts as one.
_CHARACTERS_PER_TOKEN: Final = 8


class OutputEstimate:
    """Counts one token for each event that adds to the answer, as vLLM sends them.

    An event can carry more: a tool call in one piece, or all tokens of `--stream-interval`. So the
    text counts too, with one token for every 8 characters, up to `output_tokens_max`.
    """

    def __init__(self, prompt_tokens: int, cached_tokens: int, output_tokens_max: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = cached_tokens
        self._output_tokens_max = output_tokens_max
        self._events = 0
        self._characters = 0

    def take_prompt(self, said: Usage) -> None:
        """Replace the prompt's estimate by the engine's count; the cached share stays a guess."""
        prompt, cached = said.prompt_tokens, said.cached_tokens
        if not prompt:
            return
        if cached is None:
            cached = prompt * self._cached_tokens // max(1, self._prompt_tokens)
        self._prompt_tokens, self._cached_tokens = prompt, min(cached, prompt)

    def add(self, characters: int) -> None:
        """Count an event with this many characters of text."""
        self._events += 1
        self._characters += characters

    def usage(self) -> Usage | None:
        """Return the usage so far; None before the first event."""
        return self._usage(self._events) if self._events else None

    def begun(self) -> Usage:
        """Return the usage of an answer whose first token came in an event that adds no text."""
        return self._usage(max(1, self._events))

    def whole(self, characters: int) -> Usage:
        """Return the usage of a whole answer of this length."""
        self._characters = characters
        return self._usage(0)

    def _usage(self, at_least: int) -> Usage:
        by_text = min(self._characters // _CHARACTERS_PER_TOKEN, self._output_tokens_max)
        output = max(at_least, by_text)
        return Usage(self._prompt_tokens, output, self._cached_tokens, is_estimated=True)
