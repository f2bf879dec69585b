"""Last of this folder by name: it kills a real engine in the middle of a stream."""

import json
import os
import signal
from pathlib import Path

import httpx
from tests.engine.real_cell import VISION_MODEL, Cell


def engine_pid(cell: Cell) -> int:
    """The engine's own pid, from the state file by which a keeper adopts it."""
    replica = cell.engine(VISION_MODEL)
    (state,) = (Path(cell.state) / "fleet" / "replicas").glob(f"{replica.id}/state.json")
    pid = json.loads(state.read_text())["engine_pid"]
    assert isinstance(pid, int)
    return pid


def test_killed_engine_ends_the_stream_with_an_error_event(cell: Cell) -> None:
    body = {
        "model": VISION_MODEL,
        "messages": [{"role": "user", "content": "Go on and on."}],
        "max_tokens": 1500,
        "stream": True,
        "ignore_eos": True,
    }
    pid = engine_pid(cell)
    events: list[str] = []
    with (
        cell.client() as client,
        client.stream("POST", f"{cell.openai_url}/chat/completions", json=body) as answer,
    ):
        for line in answer.iter_lines():
            if line:
                events.append(line.removeprefix("data: "))
            if len(events) == 3:
                os.killpg(pid, signal.SIGKILL)
    assert events[-1] == "[DONE]"
    error = json.loads(events[-2])["error"]
    assert error["code"] == "engine_lost"
    assert error["request_id"]
    # The only replica of that model is gone: nothing is left to try, and that is no 500.
    with httpx.Client(headers={"authorization": f"Bearer {cell.key}"}, timeout=60) as client:
        again = client.post(f"{cell.openai_url}/chat/completions", json={**body, "stream": False})
    assert again.status_code == 503
    assert again.headers["x-should-retry"] == "true"
