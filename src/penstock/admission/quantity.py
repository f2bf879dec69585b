"""Formats amounts: exact dollars, requests and tokens with their noun. Pure."""

from penstock.records.limit import Measure


def quantity(amount: int, measure: Measure) -> str:
    """Return the amount as text: `0.25 USD`, `1 request`, `4096 tokens`."""
    if measure is not Measure.NANOUSD:
        return f"{amount} {measure[:-1] if amount == 1 else measure}"
    dollars, nano = divmod(abs(amount), 10**9)
    # At least two digits after the point, and as many as are needed.
    return f"{'-' if amount < 0 else ''}{dollars}.{f'{nano:09d}'.rstrip('0'):0<2} USD"
