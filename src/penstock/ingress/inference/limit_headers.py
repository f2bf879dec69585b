"""Renders what is left of a caller's limits, in the headers that OpenAI's clients look for.

The numbers are what this gateway knows: what it holds itself, and what it last read from Postgres.
"""

from typing import Final

from penstock.metering import usd, usd_bytes
from penstock.records.decimals import thousandths, whole
from penstock.records.limit import Limit, Measure, Standing

_RESET_REQUESTS: Final = b"\r\nx-ratelimit-reset-requests: "
_RESET_TOKENS: Final = b"\r\nx-ratelimit-reset-tokens: "
_RESET_USD: Final = b"\r\nx-ratelimit-reset-usd: "

_MINUTE_MS: Final = 60_000


def limit_headers(
    standings: tuple[Standing, ...], warnings: tuple[Standing, ...], now: float
) -> bytes:
    """Return `x-ratelimit-*` of each measure's tightest limit; a warning for exceeded soft ones."""
    lines = b""
    for standing in _tightest(standings):
        lines = _with(lines, standing, now)
    if warnings:
        passed = ", ".join(sorted({_said(standing.limit) for standing in warnings}))
        lines += f"x-penstock-limit-warning: {passed}\r\n".encode()
    return lines


def _tightest(standings: tuple[Standing, ...]) -> list[Standing]:
    """Return the standing with the least share left, for each measure."""
    found: list[Standing] = []
    for standing in standings:
        measure = standing.limit.measure
        for place, other in enumerate(found):
            if other.limit.measure is measure:
                if _share(standing) < _share(other):
                    found[place] = standing
                break
        else:
            found.append(standing)
    return found


def _share(standing: Standing) -> float:
    return standing.left / max(standing.limit.amount, 1)


def _with(lines: bytes, standing: Standing, now: float) -> bytes:
    limit = standing.limit
    if not limit.header:
        limit.header = _head(limit)
    left = max(standing.left, 0)
    measure = limit.measure
    resets = _duration(standing.resets_at - now)
    if measure is Measure.NANOUSD:
        return b"%s%s%s%s%s" % (lines, limit.header, usd_bytes(left), _RESET_USD, resets)
    reset = _RESET_TOKENS if measure is Measure.TOKENS else _RESET_REQUESTS
    return b"%s%s%s%s%s" % (lines, limit.header, whole(left), reset, resets)


def _head(limit: Limit) -> bytes:
    """Return the part that is the same in every answer: all before the remaining amount."""
    name = _name(limit.measure)
    amount = usd(limit.amount) if limit.measure is Measure.NANOUSD else str(limit.amount)
    return f"x-ratelimit-limit-{name}: {amount}\r\nx-ratelimit-remaining-{name}: ".encode()


def _duration(seconds: float) -> bytes:
    """Format a duration as OpenAI does: 1h2m3s, 7.5s; with the line's end."""
    # From one minute on, only whole seconds are written.
    milliseconds = int(seconds * 1000 + 0.5) if seconds < 60 else int(seconds) * 1000
    milliseconds = max(milliseconds, 0)
    told = milliseconds // 1000
    if milliseconds < _MINUTE_MS:
        return b"%ss\r\n" % thousandths(milliseconds).rstrip(b"0").rstrip(b".")
    minutes, hours = whole(told // 60 % 60), told // 3600
    if not hours:
        return b"%sm%ss\r\n" % (minutes, whole(told % 60))
    return b"%sh%sm%ss\r\n" % (whole(hours), minutes, whole(told % 60))


def _name(measure: Measure) -> str:
    # Dollars have no usual header; the others are OpenAI's.
    return "usd" if measure is Measure.NANOUSD else measure.value


def _said(limit: Limit) -> str:
    return f"{limit.scope} {_name(limit.measure)}/{limit.period}"
