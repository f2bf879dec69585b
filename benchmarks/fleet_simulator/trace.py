"""Reads Moonshot's published traces, and finds the sessions in them.

The traces have no session ids: a request belongs to the session that first had its deepest known
block, leaving aside blocks that so many prompts begin with that they tell nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from fleet_simulator.block_cache import BLOCK_TOKENS
from fleet_simulator.flight import TraceRequest

# A block that leads to more different blocks than this is a common head, such as a system prompt.
_COMMON_CHILDREN_MIN = 20
_COMMON_CHILDREN_SHARE = 0.002


class SimulatedTraceLine(msgspec.Struct, frozen=True):
    """One line of a trace file, as published. The stamp is in milliseconds."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


def read_trace(path: Path) -> list[TraceRequest]:
    decoder = msgspec.json.Decoder(SimulatedTraceLine)
    return derive_sessions([decoder.decode(line) for line in path.read_bytes().splitlines()])


def derive_sessions(lines: Iterable[SimulatedTraceLine]) -> list[TraceRequest]:
    """The requests in order of time, each with its session, turn and known prefix."""
    ordered = sorted(lines, key=lambda line: line.timestamp)
    common = common_blocks([line.hash_ids for line in ordered])
    session_of: dict[int, int] = {}
    turns: list[int] = []
    requests = []
    for line in ordered:
        known = _count_known(line.hash_ids, session_of)
        own = (b for b in reversed(line.hash_ids[:known]) if b not in common)
        session = next((session_of[block] for block in own), len(turns))
        if session == len(turns):
            turns.append(0)
        turn = turns[session]
        turns[session] += 1
        reusable = min(known, (line.input_length - 1) // BLOCK_TOKENS)
        for block in line.hash_ids:
            session_of.setdefault(block, session)
        requests.append(
            TraceRequest(
                at=line.timestamp / 1000,
                prompt_tokens=line.input_length,
                output_tokens=line.output_length,
                session=session,
                turn=turn,
                earlier_tokens=reusable * BLOCK_TOKENS if turn else 0,
                blocks=line.hash_ids,
            )
        )
    return requests


def common_blocks(prompts: Sequence[tuple[int, ...]]) -> set[int]:
    """The blocks after which prompts go on in very many ways."""
    pairs = {pair for prompt in prompts for pair in pairwise(prompt)}
    children = Counter(block for block, _ in pairs)
    limit = max(_COMMON_CHILDREN_MIN, _COMMON_CHILDREN_SHARE * len(prompts))
    return {block for block, count in children.items() if count > limit}


def _count_known(blocks: tuple[int, ...], known: dict[int, int]) -> int:
    for index, block in enumerate(blocks):
        if block not in known:
            return index
    return len(blocks)
