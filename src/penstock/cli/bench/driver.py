"""Runs a load against one address, or several in turn, with limits of number and time.

A conversation ends when a request fails, because its next turn would need the answer.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.cli.bench.answer import OK, StreamedAnswer
from penstock.cli.bench.client import Access, ChatClient
from penstock.cli.bench.load import BenchConversation, BenchMessage, BenchTurn, Load
from penstock.cli.bench.loop_lag import LoopLag
from penstock.cli.bench.sample import STOPPED, Sample, SeenAnswer
from penstock.clock import Clock

# Sleeping is never exact, so a start that is late by less than this is not late.
_PUNCTUAL_SECONDS: Final = 0.05


class Drive(msgspec.Struct, frozen=True):
    """How a load is sent."""

    model: str
    access: Access = Access()
    has_affinity: bool = True
    # An option of vLLM: each answer has the full requested length.
    ignores_eos: bool = False
    # Conversations under way at once.
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 64
    requests_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    seconds_max: Annotated[float, Meta(gt=0, le=86_400)] = 600.0


class Driver:
    """Sends one load. Create it inside the event loop. `urls` are OpenAI base URLs."""

    def __init__(self, urls: Sequence[str], drive: Drive, clock: Clock) -> None:
        self._drive = drive
        self._clock = clock
        self._clients = [ChatClient(url, drive.access, clock) for url in urls]
        self._places = asyncio.Semaphore(drive.concurrency)
        self._begun = 0
        self._began_at = 0.0
        self.lag = LoopLag(clock)
        self.seen = SeenAnswer()

    async def run(self, load: Load, stop: asyncio.Event) -> None:
        """Run until the load is done, its time is over, or `stop` is set."""
        self._began_at = self._clock.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self.lag.watch())
                running = group.create_task(self._converse_all(load))
                stopping = group.create_task(_wait(stop.wait()))
                await asyncio.wait(
                    {running, stopping},
                    timeout=self._drive.seconds_max,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in (running, stopping, watching):
                    task.cancel()
        finally:
            self.seen.seconds = self._now()
            for client in self._clients:
                client.close()

    async def _converse_all(self, load: Load) -> None:
        async with asyncio.TaskGroup() as group:
            for conversation in load.conversations:
                if self._begun >= self._drive.requests_max:
                    return
                await asyncio.sleep(max(conversation.starts_at - self._now(), 0))
                await self._places.acquire()
                self._note_start(conversation.starts_at)
                group.create_task(self._converse(conversation))

    async def _converse(self, conversation: BenchConversation) -> None:
        messages: list[BenchMessage] = []
        try:
            for turn in conversation.turns:
                await asyncio.sleep(turn.pause_seconds)
                if self._begun >= self._drive.requests_max:
                    return
                messages += turn.messages
                answer = await self._ask(conversation.session, turn, messages)
                if answer.code != OK:
                    return
                messages.append(BenchMessage("assistant", answer.text))
        finally:
            self._places.release()

    async def _ask(
        self, session: str, turn: BenchTurn, messages: list[BenchMessage]
    ) -> StreamedAnswer:
        client = self._clients[self._begun % len(self._clients)]
        self._begun += 1
        body = self._body(turn, messages)
        self.seen.in_flight += 1
        began = self._clock.monotonic()
        try:
            answer = await client.ask(body, session if self._drive.has_affinity else None)
        except asyncio.CancelledError:
            self._keep(Sample(began - self._began_at, STOPPED, self._clock.monotonic() - began))
            raise
        finally:
            self.seen.in_flight -= 1
        self._keep(self._sample(answer, began))
        return answer

    def _body(self, turn: BenchTurn, messages: list[BenchMessage]) -> bytes:
        fields: dict[str, object] = {
            "model": self._drive.model,
            "messages": messages,
            "max_tokens": turn.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._drive.ignores_eos:
            fields["ignore_eos"] = True
        return msgspec.json.encode(fields)

    def _sample(self, answer: StreamedAnswer, began: float) -> Sample:
        first = answer.first_at
        return Sample(
            at=began - self._began_at,
            code=answer.code,
            seconds=self._clock.monotonic() - began,
            first_token_seconds=None if first is None else first - began,
            tokens_seconds=None if first is None else answer.last_at - first,
            usage=answer.usage,
            cost_nanousd=answer.cost_nanousd,
        )

    def _keep(self, sample: Sample) -> None:
        self.seen.samples.append(sample)
        self.seen.failed += sample.code not in {OK, STOPPED}

    def _note_start(self, wanted_at: float) -> None:
        late = self._now() - wanted_at
        if wanted_at and late > _PUNCTUAL_SECONDS:
            self.seen.started_late_seconds = max(self.seen.started_late_seconds, late)

    def _now(self) -> float:
        return self._clock.monotonic() - self._began_at


async def _wait(waiting: Awaitable[object]) -> None:
    await waiting
