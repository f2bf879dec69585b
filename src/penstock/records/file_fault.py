"""The error of a file that an operator wrote: where it is wrong, how, and what to write instead."""

from typing import Self


class FileFault(ValueError):
    """A file is wrong.

    `key` is the dotted path inside the file; `line` is set only for text that is not UTF-8 or TOML.
    """

    def __init__(
        self, problem: str, *, advice: str, key: str = "", file: str = "", line: int | None = None
    ) -> None:
        where = f"{file}, line {line}" if line else file
        super().__init__(": ".join(part for part in (where, key, f"{problem}. {advice}") if part))
        self.problem = problem
        self.advice = advice
        self.key = key
        self.file = file
        self.line = line

    def in_file(self, file: str) -> Self:
        """Return a copy of this error that names `file`."""
        return type(self)(self.problem, advice=self.advice, key=self.key, file=file, line=self.line)
