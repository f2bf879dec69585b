"""Screen 1: can we keep session behaviour stable across retries?"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from penstock.console.charts import Series
from penstock.console.fleet_operations import LIST_REPLICAS, ReplicasAsked
from penstock.console.incident_operations import SHOW_STABILITY, StabilityAsked
from penstock.console.screens.figures import percent
from penstock.console.screens.fleet import times_slower
from penstock.console.screens.page import Context, PageRequest
from penstock.metering.reports.cache_findings import AS_EXPECTED
from penstock.wire.resources.session_list import StabilityRow

_LINES_MAX: Final = 6
# Below this share the figure is marked, because somebody should look.
_STAYED_LOW: Final = 0.9


class JudgedWorkflow(NamedTuple):
    """A workflow's row, and which of its figures are marked."""

    row: StabilityRow
    is_stayed_low: bool
    is_hit_low: bool
    # Puts workflows in order, the worst first; 0 if all is well.
    trouble: float

    @property
    def hits_said(self) -> str:
        """Describe the line of hit ratios for screen readers."""
        known = [each for each in self.row.hits if each is not None]
        if not known:
            return "hit ratio: unknown"
        first, least, last = map(percent, (known[0], min(known), known[-1]))
        return f"hit ratio: {first} at first, {least} at the lowest, {last} at last"


async def read_stability(page: PageRequest) -> Context:
    """Read how steady each workflow's sessions are."""
    view = page.view
    asked = StabilityAsked(
        since=view.since, until=view.until, account=view.account, workflow=view.workflow
    )
    found = await page.read(SHOW_STABILITY, asked)
    answer = found.stability
    slow, replica_count = await _slow_replicas(page)
    step = timedelta(seconds=answer.step_seconds)
    form = "%d %b %H:%M" if step < timedelta(days=1) else "%d %b"
    # The worst first: its row is where an incident begins.
    judged = sorted(map(_judged, answer.rows), key=lambda each: each.trouble, reverse=True)
    shown = [each.row for each in judged[:_LINES_MAX]]
    points = max((len(row.hits) for row in shown), default=0)
    return {
        "workflows": judged,
        "troubled": sum(each.trouble > 0 for each in judged),
        "names": found.account_names,
        "has_more": answer.has_more,
        "slow": slow,
        "replica_count": replica_count,
        "series": [Series(row.workflow or "(none)", _percents(row.hits)) for row in shown],
        "starts": [(answer.since + step * number).strftime(form) for number in range(points)],
    }


async def _slow_replicas(page: PageRequest) -> tuple[Collection[str], int]:
    """Return the replicas that are slow now, and how many there are.

    A slow replica slows every workflow a little, and stands out in no workflow's row.
    """
    if page.view.until:
        return (), 0
    fleet = await page.read(LIST_REPLICAS, ReplicasAsked())
    return times_slower(fleet.replicas, fleet.use), len(fleet.replicas)


def _judged(row: StabilityRow) -> JudgedWorkflow:
    stayed, counted = row.stayed, row.hit_counted or 0.0
    is_stayed_low = stayed is not None and stayed < _STAYED_LOW
    is_hit_low = bool(row.hit_expected) and counted < (row.hit_expected or 0.0) * AS_EXPECTED
    trouble = 0.0
    if is_stayed_low:
        trouble += (1 - (stayed or 0.0)) * row.session_turns
    if is_hit_low:
        trouble += ((row.hit_expected or 0.0) - counted) * row.requests
    if row.session_turns and row.cache_breaks > row.session_turns * (1 - _STAYED_LOW):
        trouble += row.cache_breaks
    return JudgedWorkflow(row, is_stayed_low, is_hit_low, trouble)


def _percents(hits: Sequence[float | None]) -> list[float | None]:
    return [None if hit is None else hit * 100 for hit in hits]
