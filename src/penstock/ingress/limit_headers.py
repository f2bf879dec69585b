"""Where a caller stands with its limits, in the headers that OpenAI's clients look for.

The numbers are what this gateway knows: what it holds itself, and what Postgres last told it.
"""

from typing import Final

from penstock.metering import usd
from penstock.records.limit import Limit, Measure, Standing

_TOKENS: Final = Measure.TOKENS
_NANOUSD: Final = Measure.NANOUSD

_RESET_REQUESTS: Final = "\r\nx-ratelimit-reset-requests: "
_RESET_TOKENS: Final = "\r\nx-ratelimit-reset-tokens: "
_RESET_USD: Final = "\r\nx-ratelimit-reset-usd: "

_MINUTE_MS: Final = 60_000
# What follows the point of a second, by its thousandths: "", ".001", … ".01", … ".999".
_FRACTIONS: Final = [f"{thousandths / 1000:.3f}"[1:].rstrip("0.") for thousandths in range(1000)]
# Durations that were written before: of many requests in one second they are the same.
_DURATIONS_MAX: Final = 4096
_durations: Final[dict[int, str]] = {}


def limit_headers(
    standings: tuple[Standing, ...], warnings: tuple[Standing, ...], now: float
) -> bytes:
    """`x-ratelimit-*` for the tightest limit of each measure; a warning for soft ones passed."""
    parts: list[str] = []
    for standing in _tightest(standings):
        _write(standing, now, parts)
    if warnings:
        passed = ", ".join(sorted({_said(standing.limit) for standing in warnings}))
        parts.append(f"x-penstock-limit-warning: {passed}\r\n")
    return "".join(parts).encode()


def _tightest(standings: tuple[Standing, ...]) -> list[Standing]:
    """The one with the least share left, for each measure."""
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


def _write(standing: Standing, now: float, parts: list[str]) -> None:
    limit = standing.limit
    if not limit.header:
        limit.header = _head(limit)
    left = max(standing.left, 0)
    measure = limit.measure
    parts.append(limit.header)
    if measure is _NANOUSD:
        parts.append(usd(left))
        parts.append(_RESET_USD)
    else:
        parts.append(str(left))
        parts.append(_RESET_TOKENS if measure is _TOKENS else _RESET_REQUESTS)
    parts.append(_duration(standing.resets_at - now))


def _head(limit: Limit) -> str:
    """All that is the same in every answer: up to what is left."""
    name = _name(limit.measure)
    amount = usd(limit.amount) if limit.measure is _NANOUSD else str(limit.amount)
    return f"x-ratelimit-limit-{name}: {amount}\r\nx-ratelimit-remaining-{name}: "


def _duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 7.5s; with the line's end."""
    # From a minute on, whole seconds are told.
    milliseconds = int(seconds * 1000 + 0.5) if seconds < 60 else int(seconds) * 1000
    milliseconds = max(milliseconds, 0)
    written = _durations.get(milliseconds)
    if written is None:
        if len(_durations) >= _DURATIONS_MAX:
            _durations.clear()
        written = _durations[milliseconds] = _written(milliseconds)
    return written


def _written(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    if milliseconds < _MINUTE_MS:
        return f"{seconds}{_FRACTIONS[milliseconds % 1000]}s\r\n"
    minutes, hours = seconds // 60 % 60, seconds // 3600
    rest = f"{minutes}m{seconds % 60}s\r\n"
    return f"{hours}h{rest}" if hours else rest


def _name(measure: Measure) -> str:
    # Dollars have no usual header; the others are OpenAI's.
    return "usd" if measure is _NANOUSD else measure.value


def _said(limit: Limit) -> str:
    return f"{limit.scope} {_name(limit.measure)}/{limit.period}"
