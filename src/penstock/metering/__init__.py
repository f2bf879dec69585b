"""What a request cost."""

from penstock.metering.prices import cost_nanousd, usd

__all__ = ["cost_nanousd", "usd"]
