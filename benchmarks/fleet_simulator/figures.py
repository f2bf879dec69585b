"""What a run was worth: time to first token, time per output token, cache hits, moves."""

from collections.abc import Iterable, Sequence

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.flight import Flight

# A request that never got its first token counts as one that waited an hour.
_NEVER_SECONDS = 3600.0
_NEVER_SECONDS_PER_TOKEN = 10.0


class Figures(msgspec.Struct, frozen=True):
    """Of the flights in a window. `hit` is the share of prompt tokens that came from a cache."""

    requests: int
    ttft_p50: float
    ttft_p95: float
    ttft_p99: float
    tpot_p95: float
    hit: float
    # What an endless cache that all replicas share would have hit.
    hit_endless: float
    moved: float
    preemptions: int
    unfinished: int
    lost: int


def figures_of(flights: Sequence[Flight], start: float, end: float = float("inf")) -> Figures:
    """Of the flights that arrived from `start` to `end`."""
    moved = moved_flights(flights)
    window = [flight for flight in flights if start <= flight.arrived <= end]
    waits = sorted(_wait(flight) for flight in window)
    paces = sorted(_pace(flight) for flight in window if flight.request.output_tokens > 1)
    done = [flight for flight in window if flight.finished_at is not None]
    prompts = sum(flight.request.prompt_tokens for flight in done)
    later = [flight for flight in window if flight.request.turn]
    return Figures(
        requests=len(window),
        ttft_p50=percentile(waits, 0.5),
        ttft_p95=percentile(waits, 0.95),
        ttft_p99=percentile(waits, 0.99),
        tpot_p95=percentile(paces, 0.95),
        hit=sum(flight.cached_tokens for flight in done) / max(prompts, 1),
        hit_endless=_endless_hits(flights, done) / max(prompts, 1),
        moved=sum(flight.number in moved for flight in later) / max(len(later), 1),
        preemptions=sum(flight.preemptions for flight in window),
        unfinished=sum(flight.finished_at is None and not flight.is_lost for flight in window),
        lost=sum(flight.is_lost for flight in window),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest values, by distance."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def moved_flights(flights: Iterable[Flight]) -> set[int]:
    """The number of each flight that went elsewhere than the last one with its longest prefix."""
    last_at: dict[int, int] = {}
    moved = set()
    for flight in sorted(flights, key=lambda flight: flight.arrived):
        before = None
        for block in flight.full_blocks:
            if block not in last_at:
                break
            before = last_at[block]
        if before is not None and before != flight.replica:
            moved.add(flight.number)
        for block in flight.full_blocks:
            last_at[block] = flight.replica
    return moved


def moved_sessions(flights: Sequence[Flight], start: float, end: float) -> float:
    """The share of the sessions that went on in a window which moved in it."""
    moved = moved_flights(flights)
    later = [f for f in flights if start <= f.arrived <= end and f.request.turn]
    sessions = {flight.request.session for flight in later}
    gone = {flight.request.session for flight in later if flight.number in moved}
    return len(gone) / max(len(sessions), 1)


def _wait(flight: Flight) -> float:
    return _NEVER_SECONDS if flight.first_at is None else flight.first_at - flight.arrived


def _pace(flight: Flight) -> float:
    if flight.first_at is None or flight.finished_at is None:
        return _NEVER_SECONDS_PER_TOKEN
    return (flight.finished_at - flight.first_at) / (flight.request.output_tokens - 1)


def _endless_hits(flights: Iterable[Flight], counted: Iterable[Flight]) -> int:
    """Tokens that a cache without end would have hit for the counted flights."""
    known: set[int] = set()
    hits: dict[int, int] = {}
    for flight in sorted(flights, key=lambda flight: flight.arrived):
        reusable = flight.reusable_blocks
        length = next((i for i, b in enumerate(reusable) if b not in known), len(reusable))
        hits[flight.number] = length * BLOCK_TOKENS
        known.update(flight.full_blocks)
    return sum(hits[flight.number] for flight in counted)
