"""Breaks streamed text into lines between words, as wide as the terminal is."""

import re
from typing import Final

from rich.cells import cell_len

_PARTS: Final = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Feed it text in any pieces. The last word is held back until it is known to be whole."""

    def __init__(self, width: int) -> None:
        self._width = max(width, 1)
        self._column = 0
        self._word = ""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        text = self._word + text
        self._word = ""
        parts = _PARTS.findall(text)
        if parts and not parts[-1][-1].isspace():
            self._word = parts.pop()
            if cell_len(self._word) > self._width:
                # No line holds it: the terminal breaks it where it must.
                parts.append(self._word)
                self._word = ""
        return "".join([self._place(part) for part in parts])

    def end(self) -> str:
        """The word that was held back."""
        word, self._word = self._word, ""
        return self._place(word) if word else ""

    def _place(self, part: str) -> str:
        if part == "\n":
            self._column = 0
            return part
        size = cell_len(part)
        if part.isspace() and self._column + size >= self._width:
            # The line ends here: the next word begins another.
            self._column = self._width
            return ""
        if not part.isspace() and self._column and self._column + size > self._width:
            self._column = 0
            part = f"\n{part}"
        self._column += size
        if self._column > self._width:
            self._column %= self._width
        return part
