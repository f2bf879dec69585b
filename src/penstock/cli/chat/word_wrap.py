"""Breaks streamed text into lines between words, as wide as the terminal is."""

import re
from typing import Final

from rich.cells import cell_len

_PARTS: Final = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Wraps text fed in any pieces. Holds the last word back until it is complete."""

    def __init__(self, width: int) -> None:
        self._width = max(width, 1)
        self._column = 0
        self._word = ""

    def feed(self, text: str) -> str:
        """Take more text, and return what may be shown now."""
        text = self._word + text
        self._word = ""
        parts = _PARTS.findall(text)
        if parts and not parts[-1][-1].isspace():
            self._word = parts.pop()
            if cell_len(self._word) > self._width:
                # The word is wider than a line, so let the terminal break it.
                parts.append(self._word)
                self._word = ""
        return "".join([self._place(part) for part in parts])

    def end(self) -> str:
        """Return the word that was held back."""
        word, self._word = self._word, ""
        return self._place(word) if word else ""

    def _place(self, part: str) -> str:
        if part == "\n":
            self._column = 0
            return part
        size = cell_len(part)
        if part.isspace() and self._column + size >= self._width:
            # Drop blanks at the end of a line: the next word begins a new line.
            self._column = self._width
            return ""
        if not part.isspace() and self._column and self._column + size > self._width:
            self._column = 0
            part = f"\n{part}"
        self._column += size
        if self._column > self._width:
            self._column %= self._width
        return part
