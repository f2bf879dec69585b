"""Numbers as decimal text, from whole counts of their smallest part.

Digits come three at a time out of a table: every request has some of these on its answer, in its
log line and in the ledger, and to format a number costs several times as much. As bytes, which
compiled code puts together for half of what text costs.
"""

from typing import Final

_DIGITS: Final = [b"%03d" % number for number in range(1000)]
_NUMBERS: Final = [b"%d" % number for number in range(1000)]
_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000
_BILLION: Final = 1_000_000_000


def whole(count: int) -> bytes:
    """`1234` is `1234`."""
    if count >= _BILLION or count < 0:
        return b"%d" % count
    if count < _THOUSAND:
        return _NUMBERS[count]
    if count < _MILLION:
        return b"%s%s" % (_NUMBERS[count // _THOUSAND], _DIGITS[count % _THOUSAND])
    thousands = count // _THOUSAND
    return b"%s%s%s" % (
        _NUMBERS[thousands // _THOUSAND],
        _DIGITS[thousands % _THOUSAND],
        _DIGITS[count % _THOUSAND],
    )


def thousandths(count: int) -> bytes:
    """`1234` is `1.234`. Not for negative counts, as all of those below."""
    return b"%s.%s" % (whole(count // _THOUSAND), _DIGITS[count % _THOUSAND])


def billionths(count: int) -> bytes:
    """`1234` is `0.000001234`."""
    rest = count % _BILLION
    millionths = rest // _THOUSAND
    return b"%s.%s%s%s" % (
        whole(count // _BILLION),
        _DIGITS[millionths // _THOUSAND],
        _DIGITS[millionths % _THOUSAND],
        _DIGITS[rest % _THOUSAND],
    )


def six_digits(count: int) -> bytes:
    """A count below a million, with its zeros."""
    return b"%s%s" % (_DIGITS[count // _THOUSAND], _DIGITS[count % _THOUSAND])
