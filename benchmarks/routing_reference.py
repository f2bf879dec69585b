"""Compares the simulator with the reference written in C++, on three cells with equal arrivals."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from fleet_simulator.cell import Cell, CellKnowledge, run_cell
from fleet_simulator.figures import figures_of
from fleet_simulator.flight import TraceRequest
from fleet_simulator.peer_rules.load_rules import mix
from fleet_simulator.peer_rules.rules import LLM_D, LMETRIC_QUEUED, ROUND_ROBIN
from routing_jobs import SETUPS, WARM_UP_SHARE, Source

_SEEDS = (1, 2, 3, 4, 5, 6)
_P95_RATIO_MAX = 0.05
_HIT_DIFFERENCE_MAX = 0.01
_WORD = 2**64 - 1


class Pair(msgspec.Struct, frozen=True):
    """One cell by its name there and here. With the load goes a speed-up."""

    setup: str
    load: int
    speed_up: float
    rule: str
    reference_rule: str
    knowledge: CellKnowledge


_PAIRS = (
    Pair("A", 75, 2.01, ROUND_ROBIN, "rr", CellKnowledge.ALL),
    Pair("A", 75, 2.01, LLM_D, "llmd", CellKnowledge.ALL),
    Pair("D", 75, 1.83, LMETRIC_QUEUED, "lmetric", CellKnowledge.OWN),
)


class ReferenceRandom(Random):
    """The reference's xorshift, so that both see the same arrivals; ties still differ."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._word = mix(seed * 977 + 5) | 1

    def random(self) -> float:
        word = self._word
        word ^= word << 13 & _WORD
        word ^= word >> 7
        word ^= word << 17 & _WORD
        self._word = word
        return (word >> 11) / 2**53


def check_reference(folder: Path, source: Source) -> bool:
    """Build it in a temporary folder, run both, print both; whether they agree."""
    is_close = True
    with tempfile.TemporaryDirectory() as built:
        program = Path(built) / "sim"
        subprocess.run(["g++", "-O2", "-o", program, folder / "sim.cpp"], check=True)
        for pair in _PAIRS:
            setup = SETUPS[pair.setup]
            requests = source.read(setup.trace)
            _write_reference(Path(built) / f"{setup.trace}.txt", requests)
            ours = [_run_ours(pair, seed, requests) for seed in _SEEDS]
            theirs = [_run_reference(program, pair, seed) for seed in _SEEDS]
            is_close &= _compare(pair, ours, theirs)
    return is_close


def _run_ours(pair: Pair, seed: int, requests: Sequence[TraceRequest]) -> tuple[float, float]:
    setup = SETUPS[pair.setup]
    cell = Cell(
        rule=pair.rule,
        replicas=setup.replicas,
        speed_up=pair.speed_up,
        knowledge=pair.knowledge,
        seed=seed,
        jitter_seconds=setup.jitter_seconds,
    )
    flights = run_cell(cell, requests, ReferenceRandom(seed))
    figures = figures_of(flights, WARM_UP_SHARE * flights[-1].arrived)
    return figures.ttft_p95, figures.hit


def _run_reference(program: Path, pair: Pair, seed: int) -> tuple[float, float]:
    setup = SETUPS[pair.setup]
    options = {
        "dir": program.parent,
        "trace": setup.trace,
        "pol": pair.reference_rule,
        "speed": pair.speed_up,
        "R": setup.replicas,
        "jit": setup.jitter_seconds,
        "perfect": int(pair.knowledge is CellKnowledge.ALL),
        "seed": seed,
    }
    command = [str(program), *(f"{name}={value}" for name, value in options.items())]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found["ttft95"], found["hit"]


def _compare(
    pair: Pair, ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]
) -> bool:
    p95, hit = (sum(column) / len(ours) for column in zip(*ours, strict=True))
    their_p95, their_hit = (sum(column) / len(theirs) for column in zip(*theirs, strict=True))
    is_close = bool(
        abs(p95 / their_p95 - 1) <= _P95_RATIO_MAX and abs(hit - their_hit) <= _HIT_DIFFERENCE_MAX
    )
    knowledge = "all known" if pair.knowledge is CellKnowledge.ALL else "1 gateway"
    print(
        f"{pair.setup} {pair.load} % {pair.rule}, {knowledge}: "
        f"p95 {p95:.3f} s, reference {their_p95:.3f} ({p95 / their_p95 - 1:+.1%}); "
        f"hits {hit:.4f}, reference {their_hit:.4f}: {'agree' if is_close else 'DIFFER'}",
        flush=True,
    )
    return is_close


def _write_reference(path: Path, requests: Sequence[TraceRequest]) -> None:
    """In the form that the reference reads."""
    ids = 1 + max(max(request.blocks) for request in requests)
    sessions = 1 + max(request.session for request in requests)
    lines = [f"{len(requests)} {ids} {sessions}"]
    for r in requests:
        facts = (r.at, r.prompt_tokens, r.output_tokens, r.session, r.turn, r.earlier_tokens)
        lines.append(" ".join(map(str, (*facts, len(r.blocks), *r.blocks))))
    path.write_text("\n".join(lines) + "\n")
