"""Turns prices written in dollars into the integer nano-dollars that everything else reads.

`input_usd_per_mtok = 0.60` is `input_nanousd_per_mtok = 600_000_000`. The text is read as decimal
numbers, so that no price is rounded.
"""

from decimal import Decimal
from typing import Any, Final

from penstock.catalogue.entry_error import CatalogueError

_DOLLARS: Final = "_usd_per_mtok"
_NANODOLLARS: Final = "_nanousd_per_mtok"
_NANO: Final = 10**9
DOLLARS_MAX: Final = 100_000
_ADVICE: Final = "Write dollars per million tokens, with at most nine decimals: 0.60"


def convert_dollars(row: dict[str, Any], key: str) -> None:
    """Replace a row's prices in dollars. `key` is the row's place in the entry, for errors."""
    for name in [name for name in row if name.endswith(_DOLLARS)]:
        exact = name.removesuffix(_DOLLARS) + _NANODOLLARS
        if exact in row:
            raise CatalogueError(
                f"`{exact}` is there too", advice="Write one of them", key=f"{key}.{name}"
            )
        row[exact] = _nanodollars(row.pop(name), f"{key}.{name}")


def _nanodollars(dollars: object, key: str) -> int:
    if isinstance(dollars, int | Decimal) and not isinstance(dollars, bool):
        exact = Decimal(dollars)
        # Bounded first: a decimal may have a million digits.
        if exact.is_finite() and 0 <= exact <= DOLLARS_MAX:
            nanodollars = int(exact * _NANO)
            if nanodollars == exact * _NANO:
                return nanodollars
    shown = str(dollars) if isinstance(dollars, Decimal) else repr(dollars)
    raise CatalogueError(f"{shown} is not a price", advice=_ADVICE, key=key)
