"""A vLLM-V1-like engine in simulated time: chunked prefill, continuous batching, preemption.

All running sequences decode one token a step, then the budget goes to prompts in order of arrival,
flex work behind. A prompt is admitted when all of it fits; when blocks run out, the youngest is
computed again later, flex work first. Steps that only decode are taken together up to the next one
in which anything changes, exactly.
"""

import heapq
import math
from collections import deque

from fleet_simulator.block_cache import BLOCK_TOKENS, BlockCache, blocks_of
from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.flight import Flight


class Sequence:
    """A flight inside an engine. While it decodes, its length follows from the step counter."""

    __slots__ = (
        "blocks", "computed", "expected_uncached", "flight", "generated", "is_decoding", "order",
        "since_step", "target",
    )  # fmt: skip

    def __init__(self, flight: Flight, expected_uncached: int) -> None:
        self.flight = flight
        self.target = flight.request.prompt_tokens
        self.expected_uncached = expected_uncached
        self.computed = 0
        self.generated = 0
        self.is_decoding = False
        self.since_step = 0
        self.order = 0
        self.blocks: list[int] = []


class SimulatedEngine:
    """`submit`, then `advance` whenever `next_at` is reached; `next_at` may move at each call."""

    def __init__(self, constants: EngineConstants) -> None:
        self.constants = constants
        self.cache = BlockCache(constants.kv_tokens // BLOCK_TOKENS)
        self.next_at: float | None = None
        # Prompt tokens still to be computed, of waiting and running sequences.
        self.pending_tokens = 0
        self.waiting_prompt_tokens = 0
        # What it has prefilled, and how long the steps took in which it did.
        self.prefilled_tokens = 0
        self.prefill_seconds = 0.0
        self.decoding = 0
        # Flex work in flight, and its prompt tokens; who waited after the last step was planned.
        self.flex_in_flight = 0
        self.flex_prompt_tokens = 0
        self.left_waiting = 0
        # Two lines: nobody in the second is taken while somebody waits in the first.
        self._waiting: deque[Sequence] = deque()
        self._waiting_behind: deque[Sequence] = deque()
        # In order of admission; only the last one can still be at its prompt between two steps.
        self._running: dict[int, Sequence] = {}
        self._admitted = 0
        self._step = 0
        self._kv_tokens = 0
        # (step, order): when a sequence needs its next block, and when it has its last token.
        self._block_due: list[tuple[int, int]] = []
        self._end_due: list[tuple[int, int]] = []
        # What is under way: since when, how many equal steps, and the prompt parts of the first.
        self._began = 0.0
        self._steps = 0
        self._chunks: list[tuple[Sequence, int]] = []
        # Those that were given up while a step ran: they leave at its end.
        self._given_up: list[Sequence] = []

    @property
    def in_flight(self) -> int:
        return self.waiting + len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._waiting_behind)

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second while it prefilled; 0 before it has."""
        return self.prefilled_tokens / self.prefill_seconds if self.prefilled_tokens else 0.0

    @property
    def kv_demand(self) -> float:
        """The share of the cache that is held, or will be by the prompts that wait."""
        waiting = self.waiting_prompt_tokens / (self.cache.size * BLOCK_TOKENS)
        return self.cache.use + waiting

    def submit(self, flight: Flight, now: float) -> None:
        hits = self.cache.count_hits(flight.reusable_blocks)
        sequence = Sequence(flight, flight.request.prompt_tokens - hits * BLOCK_TOKENS)
        self.pending_tokens += sequence.expected_uncached
        self.waiting_prompt_tokens += flight.request.prompt_tokens
        line = self._line_of(flight)
        was_empty = not line
        line.append(sequence)
        self._count_flex(flight, 1)
        if self.next_at is None:
            self._begin(now)
        elif was_empty:
            # It may be admitted at the end of the step that runs now.
            self._cut_short(now)

    def give_up(self, flight: Flight, now: float) -> None:
        """Nobody wants its answer any more. What runs of it leaves with the step that runs."""
        for sequence in self._line_of(flight):
            if sequence.flight is flight:
                self._leave_line(sequence)
                self.pending_tokens -= sequence.expected_uncached
                self._count_flex(flight, -1)
                return
        for sequence in self._running.values():
            if sequence.flight is flight:
                self._given_up.append(sequence)
                self._cut_short(now)
                return

    def advance(self, now: float) -> tuple[list[Flight], list[Flight]]:
        """The steps under way are done: who has a first token, and who has ended."""
        self._step += self._steps
        self._kv_tokens += self._steps * self.decoding
        if self._chunks:
            self.prefill_seconds += now - self._began
        finished: list[Flight] = []
        while self._end_due and self._end_due[0][0] <= self._step:
            sequence = self._running.get(heapq.heappop(self._end_due)[1])
            if sequence is not None:
                finished.append(self._finish(sequence, now))
        first = []
        for sequence, tokens in self._chunks:
            sequence.computed += tokens
            self._kv_tokens += tokens
            self.pending_tokens -= tokens
            self.prefilled_tokens += tokens
            if sequence.computed < sequence.target:
                continue
            if sequence.flight.first_at is None:
                sequence.flight.first_at = now
                first.append(sequence.flight)
            self._start_decoding(sequence)
            if sequence.generated >= sequence.flight.request.output_tokens:
                finished.append(self._finish(sequence, now))
        self._let_go()
        self._begin(now)
        return first, finished

    def kill(self) -> list[Flight]:
        """It is gone, and is not used again: whatever it had."""
        lines = (*self._waiting, *self._waiting_behind)
        flights = [sequence.flight for sequence in (*self._running.values(), *lines)]
        self.next_at = None
        self._waiting.clear()
        self._waiting_behind.clear()
        self._running.clear()
        return flights

    def _line_of(self, flight: Flight) -> deque[Sequence]:
        return self._waiting_behind if flight.is_behind else self._waiting

    def _leave_line(self, sequence: Sequence) -> None:
        self._line_of(sequence.flight).remove(sequence)
        self.waiting_prompt_tokens -= sequence.flight.request.prompt_tokens

    def _count_flex(self, flight: Flight, sign: int) -> None:
        if flight.is_flex:
            self.flex_in_flight += sign
            self.flex_prompt_tokens += sign * flight.request.prompt_tokens

    def _cut_short(self, now: float) -> None:
        """Let the equal steps under way end with the one that runs now."""
        if self._steps > 1:
            self._steps = self._steps_until(now)
            self.next_at = self._began + self._seconds(self._steps)

    def _let_go(self) -> None:
        """Of those that were given up, unless they have ended by themselves."""
        for sequence in self._given_up:
            if sequence.order in self._running:
                if not sequence.is_decoding:
                    self.pending_tokens -= sequence.target - sequence.computed
                self._stop(sequence)
                self._count_flex(sequence.flight, -1)
        self._given_up = []

    def _start_decoding(self, sequence: Sequence) -> None:
        sequence.is_decoding = True
        sequence.generated += 1
        sequence.since_step = self._step
        self.decoding += 1
        until_block = -sequence.computed % BLOCK_TOKENS
        heapq.heappush(self._block_due, (self._step + 1 + until_block, sequence.order))
        left = sequence.flight.request.output_tokens - sequence.generated
        heapq.heappush(self._end_due, (self._step + left, sequence.order))

    def _stop(self, sequence: Sequence) -> None:
        """It leaves the running ones; what it computed is counted up to the last whole step."""
        del self._running[sequence.order]
        if sequence.is_decoding:
            steps = self._step - sequence.since_step
            sequence.computed += steps
            sequence.generated += steps
            self.decoding -= 1
        self._kv_tokens -= sequence.computed
        self.cache.release(sequence.blocks)
        sequence.blocks = []

    def _finish(self, sequence: Sequence, now: float) -> Flight:
        self._stop(sequence)
        sequence.flight.finished_at = now
        self._count_flex(sequence.flight, -1)
        return sequence.flight

    def _preempt(self, sequence: Sequence) -> None:
        if not sequence.is_decoding:
            self.pending_tokens -= sequence.target - sequence.computed
        self._stop(sequence)
        flight = sequence.flight
        flight.preemptions += 1
        sequence.is_decoding = False
        sequence.computed = 0
        sequence.target = flight.request.prompt_tokens + sequence.generated
        hits = self.cache.count_hits(flight.reusable_blocks)
        sequence.expected_uncached = sequence.target - hits * BLOCK_TOKENS
        self.pending_tokens += sequence.expected_uncached
        self.waiting_prompt_tokens += flight.request.prompt_tokens
        self._line_of(flight).appendleft(sequence)

    def _victim(self) -> Sequence:
        """Who makes room: the youngest, of those behind while some run."""
        if self.flex_in_flight:
            for sequence in reversed(self._running.values()):
                if sequence.flight.is_behind:
                    return sequence
        return self._running[next(reversed(self._running))]

    def _begin(self, now: float) -> None:
        """Plan the next step, or the next run of equal ones."""
        self._chunks = []
        preemptions = self._grow_decoding()
        budget = self.constants.budget_tokens - self.decoding
        last = self._running[next(reversed(self._running))] if self._running else None
        if last is not None and not last.is_decoding:
            tokens = min(last.target - last.computed, budget)
            needed = blocks_of(last.computed + tokens) - len(last.blocks)
            while needed > self.cache.free and last.order in self._running:
                self._preempt(self._victim())
                preemptions += 1
            if last.order in self._running:
                budget -= self._prefill(last, tokens)
        if not preemptions:
            self._admit(budget)
        self.left_waiting = self.waiting
        if not self._chunks and not self.decoding:
            self.next_at = None
            return
        self._began = now
        self._steps = 1 if self._chunks or preemptions else self._count_equal_steps()
        self.next_at = now + self._seconds(self._steps)

    def _count_equal_steps(self) -> int:
        """Until a sequence needs a block or ends; nobody can be admitted before that."""
        until_block = self._block_due[0][0] - 1 - self._step
        until_end = self._end_due[0][0] - self._step
        return max(1, min(until_block, until_end))

    def _grow_decoding(self) -> int:
        """A block for each sequence whose next token needs one; how many had to make room."""
        preemptions = 0
        while self._block_due and self._block_due[0][0] <= self._step + 1:
            step, order = heapq.heappop(self._block_due)
            sequence = self._running.get(order)
            if sequence is None:
                continue
            while not self.cache.free and order in self._running:
                self._preempt(self._victim())
                preemptions += 1
            if order in self._running:
                sequence.blocks += self.cache.take(1)
                heapq.heappush(self._block_due, (step + BLOCK_TOKENS, order))
        return preemptions

    def _admit(self, budget: int) -> None:
        while budget > 0 and self.waiting and len(self._running) < self.constants.sequences_max:
            line = self._waiting or self._waiting_behind
            sequence = line[0]
            flight = sequence.flight
            hits = self.cache.count_hits(flight.reusable_blocks)
            contents = flight.reusable_blocks[:hits]
            free = self.cache.free - self.cache.count_unheld(contents)
            if blocks_of(sequence.target) - hits > free:
                return
            line.popleft()
            self.waiting_prompt_tokens -= flight.request.prompt_tokens
            sequence.blocks = self.cache.share(contents)
            sequence.computed = hits * BLOCK_TOKENS
            if flight.first_at is None and not flight.preemptions:
                flight.cached_tokens = sequence.computed
            self._kv_tokens += sequence.computed
            uncached = sequence.target - sequence.computed
            self.pending_tokens += uncached - sequence.expected_uncached
            self._admitted += 1
            sequence.order = self._admitted
            self._running[sequence.order] = sequence
            budget -= self._prefill(sequence, min(uncached, budget))

    def _prefill(self, sequence: Sequence, tokens: int) -> int:
        """Give these prompt tokens to the step, with their blocks, which others can hit at once."""
        reached = sequence.computed + tokens
        sequence.blocks += self.cache.take(blocks_of(reached) - len(sequence.blocks))
        contents = sequence.flight.full_blocks
        for index in range(
            sequence.computed // BLOCK_TOKENS, min(reached // BLOCK_TOKENS, len(contents))
        ):
            self.cache.fill(sequence.blocks[index], contents[index])
        self._chunks.append((sequence, tokens))
        return tokens

    def _seconds(self, steps: int) -> float:
        """How long so many of the steps under way take: each holds more tokens than the last."""
        constants = self.constants
        prompt = sum(tokens for _, tokens in self._chunks)
        one = (
            constants.step_seconds
            + constants.prefill_seconds_per_token * prompt
            + constants.decode_seconds_per_sequence * self.decoding
            + constants.kv_seconds_per_token * self._kv_tokens
        )
        growth = constants.kv_seconds_per_token * self.decoding
        return steps * one + growth * steps * (steps - 1) / 2

    def _steps_until(self, now: float) -> int:
        """How many of the steps under way have begun by now."""
        first = self._seconds(1)
        growth = self.constants.kv_seconds_per_token * self.decoding / 2
        elapsed = max(0.0, now - self._began)
        linear = first - growth
        root = (math.sqrt(linear * linear + 4 * growth * elapsed) - linear) / (2 * growth)
        return min(max(1, math.ceil(root)), self._steps)
