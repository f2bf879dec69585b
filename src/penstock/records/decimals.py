"""Writes numbers as decimal text, from integer counts of their smallest unit."""

from typing import Final

_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000
_BILLION: Final = 1_000_000_000


def whole(count: int) -> bytes:
    """Return `1234` as `1234`."""
    return b"%d" % count


def thousandths(count: int) -> bytes:
    """Return `1234` as `1.234`. This and the functions below take no negative counts."""
    return b"%d.%s" % (count // _THOUSAND, _padded(count % _THOUSAND, _THOUSAND))


def billionths(count: int) -> bytes:
    """Return `1234` as `0.000001234`."""
    return b"%d.%s" % (count // _BILLION, _padded(count % _BILLION, _BILLION))


def six_digits(count: int) -> bytes:
    """Return a count below a million with leading zeros."""
    return _padded(count, _MILLION)


def _padded(count: int, power: int) -> bytes:
    """Add leading zeros. mypyc compiles `%d`, but calls the interpreter for `%06d`."""
    return (b"%d" % (power + count))[1:]
