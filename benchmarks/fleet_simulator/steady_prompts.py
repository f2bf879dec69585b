"""A steady stream of prompts that nobody has seen before, from a seed: all of each is computed."""

from itertools import count
from random import Random

import msgspec

from fleet_simulator.block_cache import blocks_of
from fleet_simulator.flight import TraceRequest


class SteadyPrompts(msgspec.Struct, frozen=True):
    """Arrivals are independent of each other; sizes are spread evenly between the two."""

    seconds: float
    requests_per_second: float
    prompt_tokens_min: int = 1_500
    prompt_tokens_max: int = 6_000
    output_tokens: int = 16


def make_prompts(prompts: SteadyPrompts, seed: int) -> list[TraceRequest]:
    """In order of time, each a session of its own."""
    random = Random(seed)
    block = count()
    requests: list[TraceRequest] = []
    at = random.expovariate(prompts.requests_per_second)
    while at < prompts.seconds:
        tokens = random.randint(prompts.prompt_tokens_min, prompts.prompt_tokens_max)
        requests.append(
            TraceRequest(
                at=at,
                prompt_tokens=tokens,
                output_tokens=prompts.output_tokens,
                session=len(requests),
                turn=0,
                earlier_tokens=0,
                blocks=tuple(next(block) for _ in range(blocks_of(tokens))),
            )
        )
        at += random.expovariate(prompts.requests_per_second)
    return requests
