"""Hardening row H2: whatever is in a body, the event loop never stands still for it.

The gateway's own thread is timed, in CPU time, while bodies of the worst shapes come in.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells import timed_gateway
from tests.integration.cells.gateway_cell import (
    CHAT,
    COMPOSED,
    PLAIN,
    REPLIES,
    Cell,
    CellFactory,
    chat_body,
)
from tests.integration.cells.limited_accounts import ask, first_with_limits, set_limit
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.hostile.hostile_sizes import SHAPES

from penstock.ingress.inference import inference_endpoint
from penstock.intake.routes import find_route
from penstock.records.limit import Measure, Period

_STEP_MS_MAX = 50.0
# The sources as they are take three times as long as what is compiled of them.
_IS_COMPILED = not str(inference_endpoint.__file__).endswith(".py")
_SLOWER = 1.0 if _IS_COMPILED else 3.0
_ANSWER_SECONDS = 50.0
_QUIET_LOOP_MS = 1.2
# Neighbours make a step longer, and nothing makes it shorter: the shortest of these counts.
_TRIES = 3
_SIZES = ("inline", "largest")
_BYTES_MAX = 32 * 2**20
_worst: dict[str, float] = {}


class TimedCell:
    """A cell whose gateway writes down its long steps."""

    def __init__(self, cell: Cell, steps: Path) -> None:
        self.cell = cell
        self._steps = steps
        self._read = 0

    def steps_ms(self) -> list[float]:
        """The steps since the last call that took a while."""
        lines = self._steps.read_text().split() if self._steps.exists() else []
        new, self._read = lines[self._read :], len(lines)
        return [float(line) for line in new]


@pytest.fixture(scope="module")
def timed(cells: CellFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimedCell]:
    steps = tmp_path_factory.mktemp("steps") / "steps"
    with cells.open({"admission.limits_refresh_seconds": 0.1}) as cell:
        cell.gateway.command = [sys.executable, str(Path(timed_gateway.__file__)), str(steps)]
        cell.set_up(CHAT, PLAIN, REPLIES, COMPOSED)
        assert cell.chat(chat_body()).status_code == 200
        yield TimedCell(cell, steps)


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("name", SHAPES)
def test_no_step_of_the_event_loop_takes_longer_than_50_ms(
    timed: TimedCell, name: str, size: str
) -> None:
    shape = SHAPES[name]
    later = {"prefer": "respond-async"} if name == "a job" else {}
    request = post_bytes(
        shape.path,
        shape.body(bytes_of(shape.path, size)),
        timed.cell.key,
        headers={"x-test": name, **later},
    )
    for _ in range(_TRIES):
        statuses, worst = _send_twice(timed, request)
        if worst <= _STEP_MS_MAX * _SLOWER:
            break
    _worst[f"{name}, {size}: {statuses}"] = worst
    assert statuses <= {200, 202, 400, 404}
    assert worst <= _STEP_MS_MAX * _SLOWER


def bytes_of(path: str, size: str) -> int:
    """The largest body that is read on the event loop itself, or the largest that is taken."""
    return _BYTES_MAX if size == "largest" else find_route(path.encode()).inline_bytes_max


def _send_twice(timed: TimedCell, request: bytes) -> tuple[set[int], float]:
    """What was answered, and the longest step. What begins like a body before goes another way."""
    timed.steps_ms()
    statuses = set()
    with RawClient(timed.cell.gateway.port, seconds=_ANSWER_SECONDS) as client:
        for _ in range(2):
            client.send(request)
            statuses.add(client.read_answer().status)
    return statuses, max(timed.steps_ms(), default=0.0) / _slowness()


def _slowness() -> float:
    """How much slower than a quiet core at 2.5 GHz this one is now: neighbours share its caches."""
    took = []
    for _ in range(5):
        began, total = time.thread_time(), 0
        for number in range(20_000):
            total += number & 7
        took.append((time.thread_time() - began) * 1000)
    return max(1.0, statistics.median(took) / _QUIET_LOOP_MS)


def test_refused_bodies_count_as_requests(timed: TimedCell) -> None:
    cell = timed.cell
    secret = set_limit(cell, Measure.REQUESTS, Period.MINUTE, 20)
    bad = {"authorization": f"Bearer {secret}"}
    first_with_limits(cell, secret)
    for _ in range(25):
        # A minute may begin anew meanwhile: then all of it counts in the next one.
        assert cell.post("/v1/chat/completions", b"{}", headers=bad).status_code in (400, 429)
    refused = [ask(cell, secret).status_code for _ in range(3)]
    assert 429 in refused


def test_the_worst_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert _worst, "runs behind the others"
    ranked = sorted(_worst.items(), key=lambda item: -item[1])
    with capsys.disabled():
        kind = "compiled" if _IS_COMPILED else "not compiled"
        print(f"\nlongest steps of the event loop, ms of CPU time on a quiet core, {kind}:")
        for name, took in ranked[:12]:
            print(f"  {took:6.1f}  {name}")
