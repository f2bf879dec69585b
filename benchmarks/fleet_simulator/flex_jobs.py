"""A deep queue of made-up jobs, from a seed: nobody ever finds it empty."""

from collections import deque
from random import Random

import msgspec

from fleet_simulator.block_cache import blocks_of
from fleet_simulator.flight import Flight, TraceRequest, depart

# Prompts of jobs share no block with each other or with a trace, whose ids are small.
_FIRST_BLOCK = 2**40
_FIRST_NUMBER = 2**40


class JobMix(msgspec.Struct, frozen=True):
    """Sizes are spread evenly between these."""

    prompt_tokens_min: int = 500
    prompt_tokens_max: int = 2000
    output_tokens_min: int = 100
    output_tokens_max: int = 300
    # From when on all of them have waited for longer than the wait target.
    aged_from: float = 0.0


class JobQueue:
    """Jobs that were handed back come first again."""

    def __init__(self, mix: JobMix, seed: int) -> None:
        self.mix = mix
        self._random = Random(seed)
        self._returned: deque[Flight] = deque()
        self._made = 0
        self._block = _FIRST_BLOCK
        self.handed_back = 0

    def take(self, gateway: int, now: float) -> Flight:
        """The next job, to be sent by this keeper now."""
        flight = self._returned.popleft() if self._returned else self._make()
        flight.gateway = gateway
        flight.arrived = now
        return flight

    def put_back(self, flight: Flight) -> None:
        """It is another flight by then: the step that runs may still belong to this one."""
        self.handed_back += 1
        self._returned.append(self._fly(flight.request))

    def _make(self) -> Flight:
        mix, random = self.mix, self._random
        prompt = random.randint(mix.prompt_tokens_min, mix.prompt_tokens_max)
        blocks = blocks_of(prompt)
        request = TraceRequest(
            at=0.0,
            prompt_tokens=prompt,
            output_tokens=random.randint(mix.output_tokens_min, mix.output_tokens_max),
            session=-1,
            turn=0,
            earlier_tokens=0,
            blocks=tuple(range(self._block, self._block + blocks)),
        )
        self._block += blocks
        return self._fly(request)

    def _fly(self, request: TraceRequest) -> Flight:
        (flight,) = depart([request], speed_up=1.0, jitter_seconds=0.0, random=self._random)
        flight.number = _FIRST_NUMBER + self._made
        flight.is_flex = True
        self._made += 1
        return flight
