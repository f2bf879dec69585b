"""A request of a trace, and one flight of it through a simulated fleet."""

from collections.abc import Sequence
from random import Random

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS


class TraceRequest(msgspec.Struct, frozen=True):
    """What a trace says of a request, and the session derived from its prefixes."""

    at: float
    prompt_tokens: int
    output_tokens: int
    session: int
    # 0 for the first of its session.
    turn: int
    # Tokens of the prompt that an earlier request had at its start; 0 for a first turn.
    earlier_tokens: int
    # One id per 512 tokens, the last one perhaps for fewer. Equal ids, equal prefixes.
    blocks: tuple[int, ...]


class Flight(msgspec.Struct, eq=False):
    """One request in one run: where it went, and when. Times are the simulation's seconds."""

    number: int
    request: TraceRequest
    arrived: float
    gateway: int = 0
    replica: int = -1
    # Whether it is a job, and whether the engine takes it behind all that is not.
    is_flex: bool = False
    is_behind: bool = False
    # What of it can be cached: its full blocks, and those that a hit can use. The last token is
    # always computed.
    full_blocks: tuple[int, ...] = ()
    reusable_blocks: tuple[int, ...] = ()
    first_at: float | None = None
    finished_at: float | None = None
    cached_tokens: int = 0
    preemptions: int = 0
    # Its engine died under a stream that had begun.
    is_lost: bool = False


def depart(
    requests: Sequence[TraceRequest], *, speed_up: float, jitter_seconds: float, random: Random
) -> list[Flight]:
    """A trace at so many times its speed, in order of arrival.

    The jitter spreads stamps that were rounded when the trace was made.
    """
    arrivals = [(r.at + jitter_seconds * random.random()) / speed_up for r in requests]
    order = sorted(range(len(requests)), key=arrivals.__getitem__)
    flights = []
    for number, place in enumerate(order):
        request = requests[place]
        full = request.blocks[: request.prompt_tokens // BLOCK_TOKENS]
        reusable = full[: (request.prompt_tokens - 1) // BLOCK_TOKENS]
        flights.append(
            Flight(
                number=number,
                request=request,
                arrived=arrivals[place],
                full_blocks=full,
                reusable_blocks=reusable,
            )
        )
    return flights
