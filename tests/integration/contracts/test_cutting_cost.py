"""What cutting tools' outputs costs: CPU time beside a fixed calibration loop."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

_ROOT = Path(__file__).parents[3]
_PROGRAM: Final = """
import runpy, sys
sys.path[:0] = [".", "benchmarks"]
runpy.run_path("benchmarks/cut_outputs.py", run_name="__main__")
"""
# In loops: what docs/measurements.md records, and how far above it another machine may be.
_RECORDED: Final = {"text": (6.3, 4.5, 4.8), "json": (20.3, 7.0, 8.1)}
_ABOVE_MAX: Final = 1.3
# No body that is read on the event loop may hold it for longer than 50 ms.
_STEP_LOOPS_MAX: Final = 50


class _Reading(msgspec.Struct):
    first_ms: float
    again_ms: float
    next_turn_ms: float


class _Told(msgspec.Struct):
    loop_ms: float
    worst_ms: float
    text: dict[str, _Reading]
    json: dict[str, _Reading]


@pytest.mark.timeout(120)
def test_a_megabyte_with_twenty_cut_outputs_costs_what_is_recorded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        check=True,
        capture_output=True,
        timeout=100,
        cwd=_ROOT,
    )
    print(done.stdout.decode())
    told = msgspec.json.decode(done.stdout, type=_Told)
    for name, recorded in _RECORDED.items():
        read = getattr(told, name)["with"]
        for value, limit in zip(msgspec.structs.astuple(read), recorded, strict=True):
            assert value / told.loop_ms <= limit * _ABOVE_MAX, (name, read)
    # A turn pays for its new output only.
    assert told.json["with"].next_turn_ms < told.json["with"].first_ms * 0.6
    assert told.worst_ms / told.loop_ms <= _STEP_LOOPS_MAX
