"""`penstock bench` as a user runs it: against an engine, a gateway, a wall, and with Ctrl-C."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli_run import PENSTOCK, Up, free_port
from tests.acceptance.terminal_picture import Terminal

from penstock.testing.scripted_engine.engine_process import ScriptedEngine

MODEL = "@cf/moonshotai/kimi-k2.5"
SMALL = ("--sessions", "4", "--turns", "3", "--think", "0.05", "--system-tokens", "400")


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model=MODEL, slots=16) as running:
        running.control(interval=0.005)
        yield running


def bench(*arguments: str, code: int = 0) -> dict[str, Any]:
    command = [*PENSTOCK, "bench", *arguments, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_sessions_grow_and_find_their_own_cache(engine: ScriptedEngine) -> None:
    told = bench(engine.url, *SMALL)
    report, samples = told["report"], told["samples"]
    assert (report["ok"], report["errors"], report["model"]) == (12, {}, MODEL)
    assert report["hit_ratio"] > 0.5
    assert report["first_token_ms"]["p50"] <= report["first_token_ms"]["p99"]
    assert report["output_tokens_per_second"] > 0
    # A bare engine says nothing of money.
    assert (report["cost_nanousd"], report["cost_usd"]) == (None, None)
    assert len(samples) == 12
    assert engine.state().finished == 12


@pytest.mark.parametrize(("option", "is_sent"), [("--affinity", True), ("--no-affinity", False)])
def test_affinity_is_sent_or_not(engine: ScriptedEngine, option: str, *, is_sent: bool) -> None:
    bench(engine.url, *SMALL, option)
    asked = engine.state().requests_log
    sessions = {each["headers"].get("x-session-affinity") for each in asked}
    assert len(sessions - {None}) == (4 if is_sent else 0)
    for each in asked:
        body = json.loads(each["body"])
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}


def test_several_addresses_take_requests_in_turn(engine: ScriptedEngine) -> None:
    with ScriptedEngine(model=MODEL) as second:
        bench(engine.url, second.url, *SMALL)
        assert (engine.state().finished, second.state().finished) == (6, 6)


def test_trace_is_sent_with_its_shared_beginnings(engine: ScriptedEngine, tmp_path: Path) -> None:
    blocks = [[1, 2], [1, 2, 3], [9], [1, 2, 3, 4]]
    rows = [
        {"timestamp": 100 * n, "input_length": 512 * len(ids), "output_length": 5, "hash_ids": ids}
        for n, ids in enumerate(blocks)
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    report = bench(engine.url, "--trace", str(file), "--concurrency", "1")["report"]
    assert report["ok"] == 4
    assert report["prompt_tokens"] == pytest.approx(512 * 10, rel=0.05)
    assert report["cached_tokens"] == pytest.approx(512 * 5, rel=0.05)
    assert report["output_tokens"] <= 4 * 5


def test_gateway_says_what_it_cost(engine: ScriptedEngine, tmp_path: Path) -> None:
    up = Up(tmp_path / "state", "--attach", engine.url, "--json")
    try:
        ready = up.ready()
        key = tmp_path / "key"
        key.write_text(ready["key"])
        report = bench(ready["base_url"], "--key-file", str(key), *SMALL)["report"]
    finally:
        up.close()
    assert (report["ok"], report["cost_from"], report["cost_unknown"]) == (12, "server", 0)
    uncached = report["prompt_tokens"] - report["cached_tokens"]
    priced = uncached * 600 + report["cached_tokens"] * 100 + report["output_tokens"] * 3_000
    assert report["cost_nanousd"] == pytest.approx(priced, rel=0.001)


def test_errors_are_counted_and_nothing_answered_is_a_failure(engine: ScriptedEngine) -> None:
    engine.control(status=503, message="no")
    report = bench(engine.url, *SMALL, code=1)["report"]
    assert report["ok"] == 0
    assert list(report["errors"].values()) == [4]
    assert next(iter(report["errors"])).startswith("503 ")


def test_address_where_nobody_is_is_told_in_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    command = [*PENSTOCK, "bench", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: No answer from {url}")
    assert done.stderr.count("\n") == 1


def test_run_ends_at_its_bounds(engine: ScriptedEngine) -> None:
    report = bench(engine.url, *SMALL, "--requests", "5")["report"]
    assert report["requests"] == 5
    engine.control(stall_before_first=30.0)
    report = bench(engine.url, *SMALL, "--seconds", "1", code=1)["report"]
    assert (report["stopped"], report["errors"]) == (4, {})
    report = bench(engine.url, *SMALL, "--timeout", "0.5", code=1)["report"]
    assert report["errors"] == {"timeout": 4}


def test_picture_is_drawn(engine: ScriptedEngine, tmp_path: Path) -> None:
    bench(engine.url, *SMALL, "--plot", str(tmp_path / "run.png"))
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_terminal_shows_a_bar_and_then_the_figures(engine: ScriptedEngine, tmp_path: Path) -> None:
    engine.control(interval=0.02)
    command = [*PENSTOCK, "bench", engine.url, "--turns", "4", "--price-input", "0.6"]
    with Terminal(tmp_path, [*command, "--price-output", "3"], columns=80, rows=34) as terminal:
        terminal.wait_for("under way", 30)
        terminal.check_layout()
        terminal.picture(tmp_path / "running.png")
        assert terminal.wait_for_end(60) == 0
        terminal.check_layout()
        lines = terminal.lines
        terminal.picture(tmp_path / "ended.png")
    text = "\n".join(lines)
    for mark in ("First token ", "Per token", "80 of 80 answered", "Cost      $", "First tokens"):
        assert mark in text
    assert "under way" not in text
    assert (tmp_path / "ended.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_ends_it_with_the_figures_so_far(engine: ScriptedEngine, tmp_path: Path) -> None:
    command = [*PENSTOCK, "bench", engine.url, "--turns", "1000", "--think", "0.1"]
    with Terminal(tmp_path, command, columns=80, rows=34) as terminal:
        terminal.wait_for("under way, first token", 30)
        # A figure, whichever: some have been answered.
        terminal.wait_for(" ms", 30)
        terminal.press("C-c")
        assert terminal.wait_for_end(20) == 0
        terminal.check_layout()
        text = "\n".join(terminal.lines)
    assert "answered" in text
    assert "Errors    none" in text
