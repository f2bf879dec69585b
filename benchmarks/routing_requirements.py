"""What is wanted of routing on the traces: each ratio, its limit, and its figure by set-up."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fleet_simulator.cell import PENSTOCK
from fleet_simulator.figures import Figures
from fleet_simulator.peer_rules.rules import (
    CACHE_AWARE,
    LLM_D,
    LMETRIC_NEW,
    LMETRIC_QUEUED,
    PEERS,
    ROUND_ROBIN,
    SESSION_HASH,
)
from routing_jobs import Job

Results = Mapping[Job, Figures]
GATEWAYS = 4


class Wanted(msgspec.Struct, frozen=True):
    """A ratio with a limit at each load; no limit, not asked. `key`: its name in the JSON, at 92 %
    or at 75 %."""

    name: str
    ratio: Callable[[Results, str, int], float]
    limits: dict[int, float]
    is_least: bool = False
    keys: dict[int, str] = {}

    def worst(self, results: Results, setups: Sequence[str], load: int) -> float:
        found = [self.ratio(results, setup, load) for setup in setups]
        return min(found) if self.is_least else max(found)


def ours(setup: str, load: int) -> Job:
    return Job(setup, load, PENSTOCK)


def heard(setup: str, load: int) -> Job:
    return Job(setup, load, PENSTOCK, gateways=GATEWAYS, is_shared=True)


def silent(setup: str, load: int) -> Job:
    return Job(setup, load, PENSTOCK, gateways=GATEWAYS)


def peer(rule: str) -> Callable[[str, int], Job]:
    return lambda setup, load: Job(setup, load, rule)


def _p95(
    above: Callable[[str, int], Job], *below: Callable[[str, int], Job]
) -> Callable[[Results, str, int], float]:
    """Against the best of those below."""

    def ratio(results: Results, setup: str, load: int) -> float:
        best = min(results[job(setup, load)].ttft_p95 for job in below)
        return results[above(setup, load)].ttft_p95 / best

    return ratio


def _hits(
    above: Callable[[str, int], Job], below: Callable[[str, int], Job]
) -> Callable[[Results, str, int], float]:
    def ratio(results: Results, setup: str, load: int) -> float:
        return results[above(setup, load)].hit / results[below(setup, load)].hit

    return ratio


def _endless_share(results: Results, setup: str, load: int) -> float:
    figures = results[ours(setup, load)]
    return figures.hit / figures.hit_endless


def _pace(results: Results, setup: str, load: int) -> float:
    theirs = results[Job(setup, load, LMETRIC_QUEUED)].tpot_p95
    return results[ours(setup, load)].tpot_p95 / theirs


def _unshared_peers() -> list[Callable[[str, int], Job]]:
    def of(rule: str) -> Callable[[str, int], Job]:
        return lambda setup, load: Job(setup, load, rule, gateways=GATEWAYS)

    return [of(rule) for rule in PEERS]


WANTED = (
    Wanted(
        "hits / session hash, 1 gateway",
        _hits(ours, peer(SESSION_HASH)),
        {50: 0.94, 75: 0.93, 92: 0.83},
        is_least=True,
    ),
    Wanted(
        "p95 / LMetric (better reading), 1 gateway",
        _p95(ours, peer(LMETRIC_QUEUED), peer(LMETRIC_NEW)),
        {50: 1.06, 75: 1.08, 92: 0.90},
        keys={92: "p95_vs_lmetric_92"},
    ),
    Wanted(
        "p95 / llm-d, 1 gateway",
        _p95(ours, peer(LLM_D)),
        {50: 1.05, 75: 1.05, 92: 0.97},
        keys={92: "p95_vs_llmd_92"},
    ),
    Wanted(
        "p95 / cache_aware, 1 gateway",
        _p95(ours, peer(CACHE_AWARE)),
        {50: 0.80, 75: 0.70, 92: 0.60},
        keys={75: "p95_vs_cache_aware_75"},
    ),
    Wanted(
        "p95 / round robin, 1 gateway",
        _p95(ours, peer(ROUND_ROBIN)),
        {50: 0.60, 75: 0.35, 92: 0.10},
        keys={75: "p95_vs_round_robin_75"},
    ),
    Wanted(
        "p95, 4 gateways that hear each other / 1",
        _p95(heard, ours),
        {50: 1.20, 75: 1.25, 92: 1.30},
        keys={92: "four_gateways_p95_92"},
    ),
    Wanted(
        "hits, 4 gateways that hear each other / 1",
        _hits(heard, ours),
        {50: 0.95, 75: 0.95, 92: 0.95},
        is_least=True,
        keys={92: "four_gateways_hit_92"},
    ),
    Wanted(
        "p95 / best peer, 4 gateways each",
        _p95(heard, *_unshared_peers()),
        {92: 0.60},
        keys={92: "four_gateways_p95_vs_best_peer_92"},
    ),
    Wanted(
        "p95, 4 silent gateways / 1",
        _p95(silent, ours),
        {50: 1.50, 75: 1.60, 92: 2.5},
        keys={92: "silent_gateways_p95_92"},
    ),
    Wanted(
        "hits, 4 silent gateways / 1",
        _hits(silent, ours),
        {50: 0.85, 75: 0.80, 92: 0.65},
        is_least=True,
    ),
    Wanted("TPOT p95 / LMetric's, 1 gateway", _pace, {50: 1.05, 75: 1.05, 92: 1.05}),
)  # fmt: skip
# The share of what an endless shared cache hits, at 75 % load.
ENDLESS_SHARES = {"A": 0.46, "C": 0.66, "D": 0.56}


def endless_share(results: Results, setup: str) -> float:
    return _endless_share(results, setup, 75)
