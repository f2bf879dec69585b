"""The gate of the overhead benchmark, and its report of some scenarios only."""

from pathlib import Path

import msgspec
import pytest

import overhead
from figures import Rounds, cpu_ratio, table
from overhead import BARE, OURS, THEIRS, hold
from scenarios import CHUNK, SMALL, Cost

GATES = Path(overhead.__file__).with_name("ratio_gates.json")
_GATES = {"small_cpu_ratio": 1.3, "chunk_cpu_ratio": 1.0}


def _cost(cpu: float) -> Cost:
    return Cost(cpu=cpu, latency_p50_us=10.0, first_token_p50_us=-1.0, rate=1000.0, units=1000)


def _small_only() -> Rounds:
    return {SMALL.name: {OURS: [_cost(50.0), _cost(60.0)], THEIRS: [_cost(100.0), _cost(100.0)]}}


def test_a_ratio_at_its_gate_passes_and_one_without_a_gate_is_not_judged() -> None:
    hold({"small_cpu_ratio": 1.3, "chunk_cpu_ratio": 1.0, "ttft_ratio": 9.0}, _GATES)


def test_a_ratio_above_its_gate_fails_and_is_named() -> None:
    with pytest.raises(SystemExit) as ended:
        hold({"small_cpu_ratio": 0.9, "chunk_cpu_ratio": 1.001}, _GATES)
    assert str(ended.value) == "chunk_cpu_ratio: 1.001 is above 1.0"


def test_a_ratio_that_was_not_measured_is_not_judged_unless_none_was() -> None:
    hold({"small_cpu_ratio": 1.0, "chunk_cpu_ratio": None}, _GATES)
    with pytest.raises(SystemExit, match="none of the ratios that have a gate"):
        hold({"small_cpu_ratio": None, "chunk_cpu_ratio": None}, _GATES)


def test_an_exit_with_a_message_is_a_failure_to_the_shell() -> None:
    with pytest.raises(SystemExit) as ended:
        hold({"small_cpu_ratio": 2.0}, _GATES)
    assert ended.value.code


def test_ratios_and_table_do_without_the_scenarios_that_were_not_run() -> None:
    rounds = _small_only()
    ratio = cpu_ratio(rounds, SMALL, OURS, THEIRS)
    assert ratio is not None
    assert ratio.median == pytest.approx(0.55)
    assert cpu_ratio(rounds, CHUNK, OURS, THEIRS) is None
    shown = table(
        rounds, {BARE: "bare", OURS: "ours", THEIRS: "theirs"}, {OURS: 50, THEIRS: 70}, BARE
    )
    header, _, ours, theirs = shown.splitlines()
    assert SMALL.title in header
    assert CHUNK.title not in header
    assert "55.0 (52.5 to 57.5)" in ours
    assert theirs.startswith("theirs")


def test_the_gates_of_the_repository_are_ratios_that_the_bench_reports() -> None:
    gates = msgspec.json.decode(GATES.read_bytes(), type=dict[str, float])
    source = Path(overhead.__file__).read_text()
    assert gates
    assert [name for name in gates if f'"{name}"' not in source] == []
