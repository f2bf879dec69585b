"""Explains where routing would send a request and why; sends nothing and changes nothing."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from penstock.records.request import InferenceRequest
from penstock.records.signal import PeerState
from penstock.routing import Route, Router, RoutingSettings, Weighed
from penstock.routing.pick import choose
from penstock.wire.resources.routing import Candidate, RoutingAnswer

_REASONS: Final = {
    "least": "It costs least.",
    "last": "Its cost is as good as the least, and the session was there last.",
    "home": "Its cost is as good as the least, and it is the session's home: the replica that all"
    " gateways name for it while they do not hear each other.",
    "rank": "Its cost is as good as the least, and it is one of the two that all gateways rank"
    " first for this session, with fewer requests in flight.",
    "strict": "The session was there last, and the account's affinity is strict.",
    "short": "The session was there last, and the prompt is shorter than a block of the cache.",
    "left": "All others are left out: they failed, or they failed this session a moment ago.",
}


class Explainer:
    """Explains routes. `peers` returns whether signals of other gateway workers arrive."""

    def __init__(
        self, router: Router, settings: RoutingSettings, peers: Callable[[], PeerState]
    ) -> None:
        self._router = router
        self._settings = settings
        self._peers = peers

    def explain(self, request: InferenceRequest, now: float, *, is_absolute: bool) -> RoutingAnswer:
        """Return what `pick` would choose now; raise NoReplica if there is no replica.

        Absolute figures reveal other accounts' load: they are for operators.
        """
        rows = self._router.explain(request, now)
        route = self._router.pick(request, (), now)
        margin = self._margin()
        limit = sum(rows[0].terms) * (1.0 + margin) if rows else 0.0
        near = [row for row in rows if sum(row.terms) <= limit]
        key = request.placement.session_key
        session = self._router.knowledge.sessions.find(key) if key else None
        last = "" if session is None else session.replica
        why = self._why(request, route, near, last)
        return RoutingAnswer(
            model=request.model.id,
            session=request.labels.session,
            prompt_tokens=route.prompt_tokens,
            replica=route.replica.id,
            why=why,
            reason=_REASONS[why],
            last_replica=last,
            session_moved=route.moved,
            cache_break=route.cache_break,
            peers=self._peers(),
            near_margin=margin,
            candidates=_candidates(rows, near, is_absolute=is_absolute),
        )

    def _margin(self) -> float:
        settings = self._settings
        is_silent = self._peers() is PeerState.SILENT
        return settings.near_margin_silent if is_silent else settings.near_margin

    def _why(
        self, request: InferenceRequest, route: Route, near: Sequence[Weighed], last: str
    ) -> str:
        is_last = route.replica.id == last
        if is_last and request.placement.is_affinity_strict:
            return "strict"
        if is_last and request.labels.session and route.prompt_tokens < self._settings.block_tokens:
            return "short"
        tied = [row.known for row in near]
        chosen = next((known for known in tied if known.replica.id == route.replica.id), None)
        if chosen is None:
            return "left"
        peers = self._peers()
        if is_last and len(tied) > 1:
            return "last"
        if len(tied) == 1 or peers is PeerState.ALONE or not request.placement.session_key:
            return "least"
        # Apply the rule as if the session had no home: if the choice differs, the home decided.
        ranked = choose(
            tied, last=None, home=None, session=request.placement.session_key, peers=peers
        )
        return "rank" if ranked is chosen else "home"


def _candidates(
    rows: Sequence[Weighed], near: Sequence[Weighed], *, is_absolute: bool
) -> list[Candidate]:
    """Render the weighed replicas; `rows` are cheapest first."""
    least = sum(rows[0].terms) if rows else 0.0
    most = max((row.known.in_flight for row in rows), default=0)
    candidates = [
        Candidate(
            replica=row.known.replica.id,
            cached_tokens=row.cached,
            cost_ratio=round(sum(row.terms) / least, 2) if least else 1.0,
            load_ratio=round(row.known.in_flight / most, 2) if most else 0.0,
            is_near=row in near,
        )
        for row in rows
    ]
    if not is_absolute:
        return candidates
    return [_with_figures(each, row) for each, row in zip(candidates, rows, strict=True)]


def _with_figures(candidate: Candidate, row: Weighed) -> Candidate:
    wait, own, harm, full = (round(term, 6) for term in row.terms)
    return msgspec.structs.replace(
        candidate,
        wait_seconds=wait,
        own_seconds=own,
        harm_seconds=harm,
        full_seconds=full,
        cost_seconds=round(sum(row.terms), 6),
        in_flight=row.known.in_flight,
    )
