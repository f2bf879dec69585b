"""What the demo runs: its engines, its sessions and its jobs, in three sizes."""

from typing import Final

import msgspec

from penstock.cli.bench.agents import AgentLoad

REPLICAS: Final = 2


class EngineShape(msgspec.Struct, frozen=True):
    """The speed and size of an imitated engine; of a real one only `slots` is used."""

    slots: int
    # Prompt tokens prefilled per second, one prompt at a time; cached ones take no time.
    prefill_rate: float = 0.0
    token_seconds: float = 0.0
    kv_tokens: int = 0


class JobShape(msgspec.Struct, frozen=True):
    """The backlog: every job begins with the same instructions."""

    count: int
    shared_tokens: int
    own_tokens: int
    output_tokens: int


class DemoPlan(msgspec.Struct, frozen=True):
    """The whole plan. Seeds differ from act to act, so that no act uses another's cache."""

    model: str
    is_real: bool
    engine: EngineShape
    agents: AgentLoad
    jobs: JobShape
    act_seconds_max: float
    start_seconds_max: float = 60.0

    @property
    def told(self) -> str:
        """Describe the engines in words."""
        if self.is_real:
            return f"{REPLICAS} replicas of {self.model} on this machine's CPU"
        engine = self.engine
        return (
            f"{REPLICAS} imitated engines. No model answers; time passes as with a large one:\n"
            f"{engine.prefill_rate:,.0f} prompt tokens a second where they are not cached, a token"
            f" every {engine.token_seconds * 1000:.0f} ms,\n{engine.slots} slots and a KV cache of"
            f" {engine.kv_tokens:,} tokens in each engine"
        )


_IMITATED: Final = DemoPlan(
    model="@cf/moonshotai/kimi-k2.5",
    is_real=False,
    # Both caches together hold all sessions, but one alone does not, as in a fleet.
    engine=EngineShape(slots=16, prefill_rate=12_000, token_seconds=0.02, kv_tokens=130_000),
    agents=AgentLoad(
        sessions=20,
        turns=5,
        system_tokens=4_000,
        first_tokens=2_000,
        turn_tokens=2_000,
        output_tokens=48,
        think_seconds=1.5,
    ),
    jobs=JobShape(count=60, shared_tokens=2_000, own_tokens=1_000, output_tokens=64),
    act_seconds_max=45.0,
)

_QUICK: Final = msgspec.structs.replace(
    _IMITATED,
    engine=EngineShape(slots=16, prefill_rate=12_000, token_seconds=0.01, kv_tokens=56_000),
    agents=msgspec.structs.replace(
        _IMITATED.agents,
        turns=4,
        system_tokens=1_500,
        first_tokens=1_500,
        turn_tokens=800,
        output_tokens=16,
        think_seconds=1.0,
    ),
    jobs=JobShape(count=20, shared_tokens=1_000, own_tokens=500, output_tokens=16),
    act_seconds_max=15.0,
)

_REAL: Final = DemoPlan(
    model="@local/huggingfacetb/smollm2-135m-instruct",
    is_real=True,
    engine=EngineShape(slots=16),
    agents=AgentLoad(
        sessions=20,
        turns=3,
        system_tokens=400,
        first_tokens=150,
        turn_tokens=100,
        output_tokens=16,
        think_seconds=2.0,
        rate=1.0,
    ),
    jobs=JobShape(count=20, shared_tokens=200, own_tokens=50, output_tokens=16),
    act_seconds_max=60.0,
    start_seconds_max=300.0,
)


def plan_for(*, is_real: bool, is_quick: bool) -> DemoPlan:
    if is_real:
        turns = 2 if is_quick else _REAL.agents.turns
        return msgspec.structs.replace(
            _REAL, agents=msgspec.structs.replace(_REAL.agents, turns=turns)
        )
    return _QUICK if is_quick else _IMITATED
