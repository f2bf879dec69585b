"""Makes a load from a trace file: arrivals, sizes and shared prefixes, filled with words.

One JSON object a line, as Moonshot published its own: `timestamp` (ms), `input_length` and
`output_length` (tokens), `hash_ids` (one id for each 512 tokens; equal ids at the start of two
prompts are a shared prefix). A line may have a `session`; else shared blocks determine it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.cli.bench.load import BenchConversation, BenchMessage, BenchTurn, Load, text_of
from penstock.cli.exit_codes import CommandFailed, ExitCode

BLOCK_TOKENS: Final = 512
# A block that leads to more different blocks than this is a common head, such as instructions.
_FOLLOWERS_MAX: Final = 20
_LINE_BYTES_MAX: Final = 4 * 2**20
_LAST_WORDS: Final = BenchMessage("user", "Go on.")


class TraceLine(msgspec.Struct, frozen=True):
    """One request."""

    timestamp: Annotated[float, Meta(ge=0)]
    input_length: Annotated[int, Meta(ge=1, le=100_000_000)]
    output_length: Annotated[int, Meta(ge=0, le=10_000_000)]
    hash_ids: tuple[int, ...]
    # The session becomes a header, which must not have line breaks.
    session: Annotated[str, Meta(max_length=100, pattern=r"^[!-~]+$")] | None = None


class TraceLoad(msgspec.Struct, frozen=True):
    """How the lines become requests."""

    # 2 is twice as fast as the trace.
    speed: float = 1.0
    # Longer prompts are cut at the end.
    prompt_tokens_max: int = 100_000
    output_tokens_max: int = 1_000
    seed: int = 1

    def load(self, lines: Sequence[TraceLine], name: str) -> Load:
        ordered = sorted(lines, key=lambda line: line.timestamp)
        return Load(
            conversations=self._conversations(ordered),
            requests=len(ordered),
            description=f"{len(ordered)} requests of {name} at {self.speed:g} times its speed",
        )

    def _conversations(self, lines: Sequence[TraceLine]) -> Iterator[BenchConversation]:
        first = lines[0].timestamp if lines else 0.0
        for line, session in zip(lines, sessions_of(lines), strict=True):
            output = max(1, min(line.output_length, self.output_tokens_max))
            yield BenchConversation(
                session=f"bench-{self.seed}-{session}",
                turns=(BenchTurn(self._messages(line), output),),
                starts_at=(line.timestamp - first) / 1000 / self.speed,
            )

    def _messages(self, line: TraceLine) -> tuple[BenchMessage, ...]:
        """Return one message per block, so that shared blocks are equal messages."""
        left = min(line.input_length, self.prompt_tokens_max)
        messages = []
        for index, block in enumerate(line.hash_ids):
            if left <= 0:
                break
            role = ("user", "assistant")[index % 2 == 0] if index else "system"
            words = text_of(BLOCK_TOKENS, self.seed, block)
            # Cut the text, because the last block of a prompt is seldom full.
            messages.append(BenchMessage(role, words[: min(left, BLOCK_TOKENS) * 4]))
            left -= BLOCK_TOKENS
        if not messages or messages[-1].role != "user":
            messages.append(_LAST_WORDS)
        return tuple(messages)


def read_trace(path: Path, requests_max: int) -> list[TraceLine]:
    """Read the first `requests_max` lines; refuses a wrong line, with its number."""
    decoder = msgspec.json.Decoder(TraceLine)
    lines: list[TraceLine] = []
    with path.open("rb") as file:
        while len(lines) < requests_max and (raw := file.readline(_LINE_BYTES_MAX)):
            if not raw.strip():
                continue
            try:
                lines.append(decoder.decode(raw))
            except msgspec.DecodeError as wrong:
                raise CommandFailed(
                    f"{path}, request {len(lines) + 1}: {wrong}. A line is an object with"
                    " timestamp, input_length, output_length and hash_ids.",
                    ExitCode.USAGE,
                ) from None
    if not lines:
        raise CommandFailed(f"{path} has no requests in it.", ExitCode.USAGE)
    return lines


def sessions_of(lines: Sequence[TraceLine]) -> list[str]:
    """Return each line's session: the one that first had the deepest block of an earlier line.

    Blocks that very many prompts begin with identify no session, and are left out.
    """
    common = _common_blocks(lines)
    owners: dict[int, str] = {}
    found = []
    for number, line in enumerate(lines):
        session = line.session
        if session is None:
            own = [block for block in line.hash_ids if block not in common]
            session = next((owners[b] for b in reversed(own) if b in owners), str(number))
            for block in own:
                owners.setdefault(block, session)
        found.append(session)
    return found


def _common_blocks(lines: Sequence[TraceLine]) -> set[int]:
    followers: dict[int, set[int]] = {}
    for line in lines:
        for block, after in pairwise(line.hash_ids):
            followers.setdefault(block, set()).add(after)
    return {block for block, after in followers.items() if len(after) > _FOLLOWERS_MAX}
