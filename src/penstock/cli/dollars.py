"""Parses amounts of dollars into integer nano-dollars and formats them, exactly."""

from decimal import Decimal, InvalidOperation
from typing import Final

from penstock.cli.exit_codes import CommandFailed, ExitCode

_DIGITS: Final = 9
_DOLLARS_MAX: Final = 10**9


def exact_usd(cost: str | Decimal) -> str:
    """Format a cost without trailing zeros, but with at least two digits after the point."""
    whole, _, part = f"{Decimal(cost):f}".partition(".")
    return f"${whole}.{part.rstrip('0'):0<2}"


def read_usd(text: str | None) -> int | None:
    """Return the nano-dollars of an amount such as 12.50; None for None."""
    if text is None:
        return None
    try:
        dollars = Decimal(text)
    except InvalidOperation:
        dollars = Decimal("nan")
    # `is_finite` is False for nan too.
    is_usable = dollars.is_finite() and 0 <= dollars <= _DOLLARS_MAX
    if not is_usable or dollars != round(dollars, _DIGITS):
        raise CommandFailed(
            f"`{text}` is no amount of dollars: write 0 to {_DOLLARS_MAX}, such as 12.50, with at"
            f" most {_DIGITS} digits after the point.",
            ExitCode.USAGE,
        )
    return int(dollars.scaleb(_DIGITS))
