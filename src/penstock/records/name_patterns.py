"""Patterns of names, such as `mcp__github__get_*`: `*` stands for any characters. Pure.

Case, outer blanks, characters that do not show and other forms of letters do not count, because
some clients repair how a model spells a tool's name.
"""

import re
import unicodedata
from typing import Final

ANY: Final = "*"


def normal(name: str) -> str:
    """Return a name, or a pattern, as it is compared."""
    if not (name.isascii() and name.isprintable()):
        plain = unicodedata.normalize("NFKC", name)
        name = "".join([each for each in plain if each.isprintable() or each.isspace()])
    return name.strip().casefold()


def expression_of(pattern: str) -> str:
    """Return the regular expression of a pattern, for a whole name.

    Groups that are never tried again keep a match linear in the length of a name.
    """
    first, *rest = map(re.escape, pattern.split(ANY))
    if not rest:
        return first
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return f"{first}{between}.*{last}"


def covers(wide: str, narrow: str) -> bool:
    """Return whether all names of one normal pattern are also names of the other."""
    # A `*` of `narrow` is one more character here, which only a `*` of `wide` can match.
    return re.fullmatch(expression_of(wide), narrow, re.DOTALL) is not None


def overlaps(one: str, other: str) -> bool:
    """Return whether some name matches both normal patterns."""
    if ANY not in one:
        return covers(other, one)
    if ANY not in other:
        return covers(one, other)
    return _fit(one.partition(ANY)[0], other.partition(ANY)[0]) and _fit(
        one.rpartition(ANY)[2][::-1], other.rpartition(ANY)[2][::-1]
    )


def _fit(one: str, other: str) -> bool:
    """Return whether a text may begin with both."""
    return one.startswith(other) or other.startswith(one)
