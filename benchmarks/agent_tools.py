"""What running tools costs: code in warm and cold containers, and chunks of a turn.

A part of `make bench-agents`. Containers are real ones, by bubblewrap; where they cannot run, their
figures are null. CPU times are divided by that of a calibration loop of about a millisecond.

`exec_warm_cpu_ms`: the worker's CPU for a stored response whose code ran in a container that was
there, over one without tools: the exec, its lines and files, and the second request to the engine.
`exec_cold_cpu_ms`: the same in a container that was started for it, with the CPU of the sandbox
host and of the container itself.
`composed_chunk_ratio`: CPU of a chunk through `TurnComposer.events`, over a plain chunk of a
response, through `ResponseComposer.events`. This one has the limit.
`turn_chunk_over_chat`: the worker's CPU of a streamed turn, over a chat stream of as many chunks,
which are passed on as they are.
`warm_share`: how many containers were warm, at one new session a second with `sandbox.warm = 4`.
`first_pandas_ms`: how long `import pandas` takes in a new container, if the image has it.
"""

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body, prompt
from tests.integration.cells.gateway_process import free_port
from tests.integration.sandbox.host_process import TOKEN, SandboxHost, sandbox_host, text_in

from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import PACKAGES, ImageProblem, make_image
from penstock.wire.apis.chat_to_response import ResponseComposer
from penstock.wire.apis.response_object import Response, echo_of, new_response
from penstock.wire.apis.turn_composer import TurnComposer
from process_tree import cpu_seconds
from soak_calibration import loop_microseconds

_CHUNKS = 2000
_WARM_SESSIONS = 40
_MEMORY_MB = 512
_HOST = {
    "uid_first": 310_000,
    "uids": 128,
    "containers_max": 128,
    "memory_tiers_mb": [_MEMORY_MB],
    "memory_mb_total": 128 * _MEMORY_MB,
    "execs_at_once_max": 32,
}


class ToolFigures(msgspec.Struct):
    """None where containers cannot run here."""

    exec_warm_cpu_ms: float | None = None
    exec_cold_cpu_ms: float | None = None
    composed_chunk_ratio: float = 0.0
    turn_chunk_over_chat: float | None = None
    warm_share: float | None = None
    first_pandas_ms: float | None = None


def measure_tools(cells: CellFactory, rounds: int) -> ToolFigures:
    """Measure everything; `cells` makes the gateway."""
    figures = ToolFigures(composed_chunk_ratio=_measure_chunks(rounds))
    # Not below a folder that is shut to the containers' users.
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-tools-"))
    try:
        folder.chmod(0o755)
        image = folder / "image"
        problem = Bubblewrap(image, ControlGroups()).host_problem()
        if problem:
            print(f"containers are left out: {problem}", flush=True)
        else:
            has_pandas = _make_image(image)
            _measure_containers(cells, folder, rounds, figures)
            _measure_warm(folder, figures, has_pandas=has_pandas)
    finally:
        shutil.rmtree(folder)
    return figures


def _make_image(image: Path) -> bool:
    try:
        make_image(image, PACKAGES)
    except ImageProblem as problem:
        print(f"pandas is left out: {problem}", flush=True)
        shutil.rmtree(image, ignore_errors=True)
        make_image(image, ())
        return False
    return True


def _measure_chunks(rounds: int) -> float:
    """Both composers take the same chunks of text, one by one, in turns."""
    choices = [{"index": 0, "delta": {"content": " water"}, "finish_reason": None}]
    chunk = b"data: " + json.dumps({"choices": choices, "usage": None}).encode() + b"\n\n"

    def timed(make: Callable[[Response], ResponseComposer]) -> float:
        composer = make(new_response("resp_0", 1000, "m", echo_of({})))
        began = time.process_time()
        for _ in range(_CHUNKS):
            composer.events(chunk)
        return time.process_time() - began

    def turn(response: Response) -> ResponseComposer:
        return TurnComposer(response, time.monotonic, {"python"}, has_outputs=True)

    def plain(response: Response) -> ResponseComposer:
        return ResponseComposer(response, time.monotonic)

    timed(turn), timed(plain)
    pairs = [(timed(turn), timed(plain)) for _ in range(4 * rounds)]
    micros = statistics.median(one for one, _ in pairs) / _CHUNKS * 1e6
    print(f"{micros:.1f} us for a chunk of a turn", flush=True)
    return statistics.median(one / other for one, other in pairs)


def _measure_containers(
    cells: CellFactory, folder: Path, rounds: int, figures: ToolFigures
) -> None:
    port = free_port()
    token = folder / "token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    settings = {
        "responses.store_default": True,
        "tools.sandbox_hosts": [f"http://127.0.0.1:{port}"],
        "tools.sandbox_token_file": str(token),
        "tools.containers_per_account_max": 1000,
    }
    with (
        sandbox_host(folder, image=folder / "image", port=port, warm=0, **_HOST) as host,
        cells.open(settings) as cell,
    ):
        cell.set_up(CHAT)
        container = cell.post("/v1/containers", {"name": "warm"}).json()["id"]
        plain = [_cpu(cell, None, {"model": CHAT, "input": "hello"}, 20) for _ in range(rounds)]
        warm = [_cpu(cell, None, _asked(container), 20) for _ in range(rounds)]
        cold = [_cpu(cell, host, _asked({"type": "auto"}), 3) for _ in range(rounds)]
        without = statistics.median(plain)
        figures.exec_warm_cpu_ms = statistics.median(warm) - without
        figures.exec_cold_cpu_ms = statistics.median(cold) - without
        figures.turn_chunk_over_chat = _stream_ratio(cell, rounds)


def _asked(container: object) -> dict[str, object]:
    call = f"CALL python {json.dumps({'code': 'print(6*7)'})}"
    tool = {"type": "code_interpreter", "container": container}
    return {"model": CHAT, "input": call, "tools": [tool]}


def _cpu(cell: Cell, host: SandboxHost | None, body: dict[str, object], requests: int) -> float:
    """The worker's CPU for one request, and the host's if it counts, in calibrated milliseconds."""
    (worker,) = cell.gateway.worker_pids()

    def used() -> float:
        return cpu_seconds(worker) + (0.0 if host is None else cpu_seconds(host.process.pid))

    before, loops = used(), [loop_microseconds() for _ in range(20)]
    for _ in range(requests):
        answer = cell.post("/v1/responses", body)
        assert answer.status_code == 200, answer.text
        assert all(item["status"] == "completed" for item in answer.json()["output"]), answer.text
    loops += [loop_microseconds() for _ in range(20)]
    return (used() - before) / requests * 1e6 / statistics.median(loops)


def _stream_ratio(cell: Cell, rounds: int) -> float:
    """The worker's CPU for a long stream of a turn, over that of chat."""
    (worker,) = cell.gateway.worker_pids()
    script = {"tokens": _CHUNKS}
    turn = {**_asked({"type": "auto"}), "input": prompt(script)[0]["content"], "stream": True}
    chat = chat_body(CHAT, script, stream=True)

    def used(path: str, body: dict[str, object]) -> float:
        before = cpu_seconds(worker)
        for _ in range(5):
            assert cell.post(path, body).status_code == 200
        return cpu_seconds(worker) - before

    pairs = [
        (used("/v1/responses", turn), used("/v1/chat/completions", chat)) for _ in range(rounds)
    ]
    return statistics.median(one / other for one, other in pairs)


def _measure_warm(folder: Path, figures: ToolFigures, *, has_pandas: bool) -> None:
    """Ask the host itself: a gateway does not say whether a container was warm."""
    with sandbox_host(folder, image=folder / "image", warm=4, **_HOST) as host:
        deadline = time.monotonic() + 30
        while host.status().warm < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        began, warm = time.monotonic(), 0
        for number in range(_WARM_SESSIONS):
            time.sleep(max(0.0, began + number - time.monotonic()))
            body = {"memory_mb": _MEMORY_MB, "idle_seconds": 600, "life_seconds": 600}
            id = f"{number:032x}"
            started = host.client.post(f"/containers/{id}", json=body)
            assert started.status_code == 200, started.text
            warm += started.json()["was_warm"]
            assert text_in(host.run(id, "print(6*7)")).strip() == "42"
        figures.warm_share = warm / _WARM_SESSIONS
        if has_pandas:
            id = host.open(_MEMORY_MB)
            at = time.perf_counter()
            assert text_in(host.run(id, "import pandas; print('there')")).strip() == "there"
            figures.first_pandas_ms = (time.perf_counter() - at) * 1000
