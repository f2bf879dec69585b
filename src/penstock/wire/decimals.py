"""Numbers as decimal text, from whole counts of their smallest part.

Digits come three at a time out of a table: every request has some of these on its answer and in its
log line, and to format a number costs several times as much.
"""

from typing import Final

_DIGITS: Final = [f"{number:03d}" for number in range(1000)]


def thousandths(count: int) -> str:
    """`1234` is `1.234`. Not for negative counts, as all of these."""
    return f"{count // 1000}.{_DIGITS[count % 1000]}"


def billionths(count: int) -> str:
    """`1234` is `0.000001234`."""
    whole, rest = count // 1_000_000_000, count % 1_000_000_000
    millionths = rest // 1000
    return (
        f"{whole}.{_DIGITS[millionths // 1000]}{_DIGITS[millionths % 1000]}{_DIGITS[rest % 1000]}"
    )


def six_digits(count: int) -> str:
    """A count below a million, with its zeros."""
    return f"{_DIGITS[count // 1000]}{_DIGITS[count % 1000]}"
