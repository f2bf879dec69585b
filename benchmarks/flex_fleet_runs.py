"""The set-ups of the flex benchmark on a simulated fleet, and one pair of runs of it."""

from collections.abc import Callable

import msgspec

from fleet_simulator.agent_traffic import AgentTraffic, make_traffic
from fleet_simulator.cell import PENSTOCK, Cell, CellKnowledge
from fleet_simulator.flex_cell import (
    FlexCell,
    run_flex_cell,
    throughput_ratio,
)
from fleet_simulator.flex_jobs import JobMix
from fleet_simulator.flight import TraceRequest
from fleet_simulator.steady_prompts import SteadyPrompts, make_prompts

LOADS = (25, 50, 75, 92)
_GATEWAYS = 2
# How often gateways and keepers tell.
_EXCHANGE_SECONDS = 0.1


class Shape(msgspec.Struct, frozen=True):
    """Live traffic and the jobs behind it. A full load is so many arrivals a second by replica."""

    make: Callable[[float, float, int], list[TraceRequest]]
    full_load: float
    mix: JobMix
    flex_from: float
    start: float
    end: float
    live: str

    def described(self) -> str:
        mix = self.mix
        return (
            f"live {self.live}; jobs of {mix.prompt_tokens_min} to {mix.prompt_tokens_max} tokens "
            f"in and {mix.output_tokens_min} to {mix.output_tokens_max} out, all past their wait "
            f"target; measured from {self.start:g} to {self.end:g} s, flex from {self.flex_from:g}"
        )


def _prompts(seconds: float, rate: float, seed: int) -> list[TraceRequest]:
    return make_prompts(SteadyPrompts(seconds=seconds, requests_per_second=rate), seed)


def _agents(seconds: float, rate: float, seed: int) -> list[TraceRequest]:
    return make_traffic(AgentTraffic(seconds=seconds, sessions_per_second=rate), seed)


SHAPES = {
    # As with the real engine: what is wanted now is new and answered shortly, jobs are small. The
    # full load is what engines can read.
    "prompts": Shape(
        make=_prompts,
        full_load=4.0,
        mix=JobMix(prompt_tokens_min=64, prompt_tokens_max=128, output_tokens_min=48,
                   output_tokens_max=48),
        flex_from=5.0,
        start=15.0,
        end=40.0,
        live="prompts of 1,500 to 6,000 uncached tokens, 16 out",
    ),
    # Sessions that grow and live by the cache. At the full load first tokens take 5 s (p95).
    "agents": Shape(
        make=_agents,
        full_load=0.35,
        mix=JobMix(),
        flex_from=130.0,
        start=200.0,
        end=240.0,
        live="generated agents",
    ),
}  # fmt: skip


class Pair(msgspec.Struct, frozen=True):
    """Of the same arrivals with and without flex."""

    p50: float
    p95: float
    p50_without: float
    p95_without: float
    throughput: float
    throughput_without: float
    tokens: float
    tokens_without: float
    hit: float
    hit_without: float
    jobs_per_second: float
    handed_back_share: float

    @property
    def ttft_p95_ratio(self) -> float:
        return self.p95 / self.p95_without


def flex_cell(name: str, seed: int, replicas: int) -> FlexCell:
    shape = SHAPES[name]
    cell = Cell(
        rule=PENSTOCK,
        replicas=replicas,
        speed_up=1.0,
        gateways=_GATEWAYS,
        knowledge=CellKnowledge.SHARED,
        seed=seed,
        exchange_seconds=_EXCHANGE_SECONDS,
    )
    return FlexCell(
        cell=cell,
        start=shape.start,
        end=shape.end,
        flex_from=shape.flex_from,
        mix=shape.mix,
    )


def run_pair(name: str, load: int, seed: int, replicas: int) -> Pair:
    shape = SHAPES[name]
    flex = flex_cell(name, seed, replicas)
    rate = shape.full_load * load / 100 * replicas
    requests = shape.make(flex.end + flex.seconds_after, rate, seed)
    bare = msgspec.structs.replace(flex, has_flex=False)
    without = run_flex_cell(bare, requests)
    throughput_without = throughput_ratio(bare, without)
    beside = run_flex_cell(flex, requests)
    return Pair(
        p50=beside.live.ttft_p50,
        p95=beside.live.ttft_p95,
        p50_without=without.live.ttft_p50,
        p95_without=without.live.ttft_p95,
        throughput=throughput_ratio(flex, beside),
        throughput_without=throughput_without,
        tokens=beside.tokens_per_engine_second,
        tokens_without=without.tokens_per_engine_second,
        hit=beside.live.hit,
        hit_without=without.live.hit,
        jobs_per_second=beside.jobs / (flex.end - flex.start),
        handed_back_share=beside.jobs_handed_back / max(1, beside.jobs),
    )
