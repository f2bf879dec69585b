"""A synthetic agent load: sessions that share a system prompt and grow turn by turn. Pure."""

from collections.abc import Iterator
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.cli.bench.load import BenchConversation, BenchMessage, BenchTurn, Load, text_of


class AgentLoad(msgspec.Struct, frozen=True):
    """The shape of the sessions. Counts of tokens are approximate; the seed selects the words."""

    sessions: Annotated[int, Meta(ge=1, le=100_000)] = 20
    turns: Annotated[int, Meta(ge=1, le=1_000)] = 6
    # The instructions that all sessions begin with.
    system_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 2_000
    # The message of a session's first turn.
    first_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    # The message that each later turn adds, such as a tool's result.
    turn_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 300
    output_tokens: Annotated[int, Meta(ge=1, le=100_000)] = 64
    # The average pause between an answer and the next turn.
    think_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 1.0
    # Sessions that begin each second; 0 = all of them at once.
    rate: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    prompt_tokens_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    seed: int = 1

    def load(self) -> Load:
        turns = self._turns_that_fit()
        system = BenchMessage("system", text_of(self.system_tokens, self.seed, "system"))
        return Load(
            conversations=self._conversations(turns, system),
            requests=self.sessions * turns,
            description=f"{self.sessions} agent sessions of {turns} turns",
        )

    def _turns_that_fit(self) -> int:
        """Return how many turns a session has before its prompt exceeds `prompt_tokens_max`."""
        room = self.prompt_tokens_max - self.system_tokens - self.first_tokens
        more = max(room, 0) // (self.turn_tokens + self.output_tokens)
        return min(self.turns, 1 + more)

    def _conversations(self, turns: int, system: BenchMessage) -> Iterator[BenchConversation]:
        # A fixed seed: runs with other texts have the same pauses, and can be compared.
        random = Random(1)  # noqa: S311 - a load to be repeated
        at = 0.0
        for number in range(self.sessions):
            yield BenchConversation(
                session=f"bench-{self.seed}-{number}",
                turns=tuple(self._turn(number, turn, system, random) for turn in range(turns)),
                starts_at=at,
            )
            at += random.expovariate(self.rate) if self.rate else 0.0

    def _turn(self, session: int, turn: int, system: BenchMessage, random: Random) -> BenchTurn:
        tokens = self.turn_tokens if turn else self.first_tokens
        message = BenchMessage("user", text_of(tokens, self.seed, session, turn))
        opens_with_system = not turn and self.system_tokens
        mean = self.think_seconds
        return BenchTurn(
            messages=(system, message) if opens_with_system else (message,),
            output_tokens=self.output_tokens,
            pause_seconds=random.expovariate(1 / mean) if turn and mean else 0.0,
        )
