"""Formats numbers for people: short counts, money, times, shares, bars. Pure."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

NOTHING: Final = "-"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_UNITS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def short(count: int) -> str:
    """Shorten a count: 1234 is 1.2k."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def dollars(nanousd: int, *, is_padded: bool = False) -> str:
    """Format in cents from a dollar on; below it, in millionths if cents are not exact.

    Millionths end at their last digit that is not 0, unless they are padded.
    """
    if 0 < nanousd < 500:
        return "<$0.000001"
    amount = Decimal(nanousd).scaleb(-9)
    cents = amount.quantize(Decimal("0.01"), ROUND_HALF_UP)
    if abs(amount) >= 1:
        return f"${cents:,}"
    fine = amount.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    if fine == cents:
        return f"${cents}"
    return f"${fine if is_padded else fine.normalize():f}"


def signed_amount(nanousd: int, *, is_fine: bool) -> str:
    """Format a change of money: in cents, or in millionths of a dollar; 0 if it rounds to nothing.

    All amounts of a table are `is_fine` or none is, so that they can be compared at a glance.
    """
    digits = 6 if is_fine else 2
    step = 10 ** (9 - digits)
    # In integers: a page has hundreds of amounts, and decimals take five times as long.
    whole, part = divmod((abs(nanousd) + step // 2) // step, 10**digits)
    if not whole and not part:
        return "0"
    return f"{'-' if nanousd < 0 else '+'}{whole:,}.{part:0{digits}d}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f}%"


def milliseconds(time: float | None) -> str:
    if time is None:
        return NOTHING
    return f"{time:.0f}ms" if time < 1000 else f"{time / 1000:.1f}s"


def bar(part: int, whole: int, width: int) -> str:
    """Return a bar of part / whole in eighths of a character; any part above 0 is visible."""
    if part <= 0 or whole <= 0:
        return ""
    eighths = max(1, round(part * width * 8 / whole))
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def last_part(model: str) -> str:
    """Return a model's id without its publisher, which narrow tables have no room for."""
    return model.rpartition("/")[2]
