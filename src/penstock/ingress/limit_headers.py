"""Where a caller stands with its limits, in the headers that OpenAI's clients look for.

The numbers are what this gateway knows: what it holds itself, and what Postgres last told it.
"""

from collections.abc import Iterable
from typing import Final

from penstock.metering import usd
from penstock.records.limit import Measure, Standing

# Dollars have no usual header; the others are OpenAI's.
_NAMES: Final = {Measure.REQUESTS: "requests", Measure.TOKENS: "tokens", Measure.NANOUSD: "usd"}


_SECONDS: Final = "%.3f"


def limit_headers(standings: Iterable[Standing], warnings: Iterable[Standing], now: float) -> bytes:
    """`x-ratelimit-*` for the tightest limit of each measure; a warning for soft ones passed."""
    lines = [_lines(tightest, now) for tightest in _tightest(standings)]
    passed = ", ".join(sorted({_said(standing) for standing in warnings}))
    if passed:
        lines.append(f"x-penstock-limit-warning: {passed}\r\n")
    return "".join(lines).encode("latin-1", "replace")


def _tightest(standings: Iterable[Standing]) -> list[Standing]:
    """The one with the least share left, for each measure."""
    by_measure: dict[Measure, Standing] = {}
    for standing in standings:
        other = by_measure.get(standing.limit.measure)
        if other is None or _share(standing) < _share(other):
            by_measure[standing.limit.measure] = standing
    return list(by_measure.values())


def _share(standing: Standing) -> float:
    return standing.left / max(standing.limit.amount, 1)


def _lines(standing: Standing, now: float) -> str:
    limit = standing.limit
    name = _NAMES[limit.measure]
    left = max(standing.left, 0)
    if limit.measure is Measure.NANOUSD:
        amounts = (usd(limit.amount), usd(left))
    else:
        amounts = (str(limit.amount), str(left))
    reset = max(standing.resets_at - now, 0.0)
    return (
        f"x-ratelimit-limit-{name}: {amounts[0]}\r\n"
        f"x-ratelimit-remaining-{name}: {amounts[1]}\r\n"
        f"x-ratelimit-reset-{name}: {_duration(reset)}\r\n"
    )


def _duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 7.5s."""
    if seconds < 60:
        return (_SECONDS % seconds).rstrip("0").rstrip(".") + "s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"


def _said(standing: Standing) -> str:
    limit = standing.limit
    return f"{limit.scope} {_NAMES[limit.measure]}/{limit.period}"
