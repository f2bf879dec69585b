"""What a change of the fleet costs: replicas are added, drained or killed at half time."""

from collections.abc import Sequence

import msgspec

from fleet_simulator.cell import Cell, Change, run_cell
from fleet_simulator.figures import figures_of, moved_sessions
from fleet_simulator.flight import Flight, TraceRequest

# The event is at half time; a fifth of the trace before it is compared with a fifth after it.
_BEFORE = 0.3
_EVENT = 0.5
_AFTER = 0.7


class ScaleOutcome(msgspec.Struct, frozen=True):
    """Around the event, and in the same window of a run without it."""

    p95_before: float
    p95_after: float
    p95_after_without: float
    # Shares of the sessions that went on in the window after.
    moved: float
    moved_without: float
    # Streams that had begun on the replica that died, and requests that failed in another way.
    lost: int
    failed: int


def run_without_event(cell: Cell, requests: Sequence[TraceRequest]) -> list[Flight]:
    """What `run_scale_event` compares with; the same for every event of one cell."""
    return run_cell(msgspec.structs.replace(cell, change=Change.NONE), requests)


def run_scale_event(
    cell: Cell, requests: Sequence[TraceRequest], without: Sequence[Flight]
) -> ScaleOutcome:
    with_event = run_cell(cell, requests)
    end = with_event[-1].arrived
    start, event, after = (share * end for share in (_BEFORE, _EVENT, _AFTER))
    all_of_it = figures_of(with_event, 0.0)
    return ScaleOutcome(
        p95_before=figures_of(with_event, start, event).ttft_p95,
        p95_after=figures_of(with_event, event, after).ttft_p95,
        p95_after_without=figures_of(without, event, after).ttft_p95,
        moved=moved_sessions(with_event, event, after),
        moved_without=moved_sessions(without, event, after),
        lost=all_of_it.lost,
        failed=all_of_it.unfinished,
    )
