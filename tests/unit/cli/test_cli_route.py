"""`penstock route explain`: the table, and what is said when there is no answer to print."""

import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.cli.exit_codes import ExitCode
from penstock.cli.route import print_routing
from penstock.cli.up.state import Credentials, UpState
from penstock.wire.resources.routing import Candidate, RoutingAnswer


def candidate(replica: str, **facts: Any) -> Candidate:
    ordinary: dict[str, Any] = {
        "cached_tokens": 0,
        "cost_ratio": 1.0,
        "load_ratio": 0.5,
        "wait_seconds": 0.0,
        "own_seconds": 0.1,
        "harm_seconds": 0.3,
        "full_seconds": 0.0,
        "cost_seconds": 0.4,
        "in_flight": 0,
        "is_near": False,
    }
    return Candidate(replica=replica, **(ordinary | facts))


ANSWER = RoutingAnswer(
    model="m",
    session="s",
    prompt_tokens=12345,
    replica="r2",
    why="last",
    reason="It was there last.",
    last_replica="r2",
    session_moved="",
    cache_break="",
    peers="alone",
    near_margin=0.03,
    candidates=[
        candidate("r1", is_near=True),
        candidate("r2", cached_tokens=9000, cost_seconds=1.5, in_flight=3, is_near=True),
    ],
)


def test_candidates_are_rows_and_the_choice_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    print_routing(ANSWER)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert " ".join(lines[0].split()) == "replica cached wait own harm full cost in flight"
    assert lines[1].split() == ["r1", "0", "0.0ms", "100.0ms", "300.0ms", "0.0ms", "400.0ms",
                                "0", "near"]  # fmt: skip
    assert lines[2].split() == ["→", "r2", "9,000", "0.0ms", "100.0ms", "300.0ms", "0.0ms",
                                "1.50s", "3", "last,", "near"]  # fmt: skip
    assert lines[4] == "r2 (last): It was there last."
    assert lines[5] == "session s, about 12,345 prompt tokens, other gateways: alone"


def test_ratios_are_printed_where_seconds_are_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {"cached_tokens": 9000, "cost_ratio": 1.25, "load_ratio": 0.5, "is_near": False}
    answer = msgspec.structs.replace(ANSWER, candidates=[Candidate(replica="r2", **plain)])  # type: ignore[arg-type]
    print_routing(answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["replica", "cached", "cost", "load"]
    assert lines[1].split() == ["→", "r2", "9,000", "1.25x", "50%", "last"]


def test_move_and_break_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    changed = {"session": "", "session_moved": "load", "cache_break": "message 3"}
    print_routing(msgspec.structs.replace(ANSWER, **changed))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("the session would move (load), its cache breaks at: message 3")


def explain(*arguments: str, asked: str = "{}") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["route", "explain", *arguments], input=asked)
    return done.exit_code, done.stderr


def test_without_a_key_it_says_where_one_may_come_from(tmp_path: Path) -> None:
    code, said = explain("-", "--state", str(tmp_path))
    assert code == ExitCode.USAGE
    assert "--key-file" in said


def test_gateway_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    UpState(tmp_path).write_credentials(Credentials("a", "k", "secret"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        code, said = explain("-", "--url", url, "--state", str(tmp_path))
    assert code == ExitCode.FAILED
    assert url in said
    assert "secret" not in said


def test_file_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    code, said = explain(str(tmp_path / "none.json"), "--state", str(tmp_path))
    assert code == ExitCode.FAILED
    assert "none.json" in said
