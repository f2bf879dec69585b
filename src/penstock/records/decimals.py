"""Writes numbers as decimal text, from whole counts of their smallest part."""

from typing import Final

_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000
_BILLION: Final = 1_000_000_000


def whole(count: int) -> bytes:
    """`1234` is `1234`."""
    return b"%d" % count


def thousandths(count: int) -> bytes:
    """`1234` is `1.234`. Not for negative counts, as all of those below."""
    return b"%d.%s" % (count // _THOUSAND, _padded(count % _THOUSAND, _THOUSAND))


def billionths(count: int) -> bytes:
    """`1234` is `0.000001234`."""
    return b"%d.%s" % (count // _BILLION, _padded(count % _BILLION, _BILLION))


def six_digits(count: int) -> bytes:
    """A count below a million, with its zeros."""
    return _padded(count, _MILLION)


def _padded(count: int, power: int) -> bytes:
    """With zeros in front. mypyc compiles `%d`, but calls the interpreter for `%06d`."""
    return (b"%d" % (power + count))[1:]
