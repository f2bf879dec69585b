"""The benchmarks' load generator sends what agents send: conversations of which the end is new."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from candidates import start_upstream, stop_process
from native_programs import build, read_bodies, run_load
from scenarios import AGENT, BODY_1MB_NEW, BODY_300KB, SCENARIOS, SMALL, Scenario

_SESSIONS = 3


class Message(msgspec.Struct):
    role: str
    content: str


class Body(msgspec.Struct):
    model: str
    messages: list[Message]
    max_tokens: int
    seed: int
    stream: bool = False
    tools: list[msgspec.Raw] = []


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    build(folder)
    return folder


@pytest.fixture
def upstream_port(programs: Path) -> Iterator[int]:
    process, ports = start_upstream(programs / "upstream")
    yield ports[0]
    stop_process(process)


def _bodies(programs: Path, scenario: Scenario, count: int) -> list[bytes]:
    arguments = [*scenario.arguments, "-x", str(_SESSIONS)]
    return read_bodies(programs / "loadgen", arguments, count)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_bodies_are_json_of_the_wanted_size_and_no_two_are_equal(
    programs: Path, scenario: Scenario
) -> None:
    bodies = _bodies(programs, scenario, 2 * _SESSIONS)
    wanted = int(scenario.arguments[scenario.arguments.index("-b") + 1])
    assert len(set(bodies)) == 2 * _SESSIONS
    for body in bodies:
        read = msgspec.json.decode(body, type=Body)
        assert abs(len(body) - wanted) < 100
        assert [message.role for message in read.messages[:2]] == ["system", "user"]
        assert read.messages[-1].role == "user"
        assert 150 < len(read.messages[-1].content) < 250
        assert read.stream == ("-s" in scenario.arguments)


@pytest.mark.parametrize("scenario", [SMALL, BODY_300KB, AGENT], ids=lambda one: one.name)
def test_a_session_repeats_all_but_its_last_message(programs: Path, scenario: Scenario) -> None:
    bodies = _bodies(programs, scenario, 2 * _SESSIONS)
    first, other, again = (
        msgspec.json.decode(bodies[index], type=Body).messages for index in (0, 1, _SESSIONS)
    )
    assert first[:-1] == again[:-1]
    assert first[-1] != again[-1]
    assert not any(one == another for one, another in zip(first, other, strict=True))


def test_an_agent_has_forty_messages_and_tools(programs: Path) -> None:
    body = msgspec.json.decode(_bodies(programs, AGENT, 1)[0], type=Body)
    assert len(body.messages) == 40
    assert len(body.tools) == 10


def test_a_new_conversation_shares_no_message_with_the_one_before(programs: Path) -> None:
    bodies = _bodies(programs, BODY_1MB_NEW, 2 * _SESSIONS)
    contents = [
        message.content
        for body in bodies
        for message in msgspec.json.decode(body, type=Body).messages
    ]
    assert len(set(contents)) == len(contents)


@pytest.mark.parametrize("scenario", [SMALL, AGENT, BODY_1MB_NEW], ids=lambda one: one.name)
def test_the_upstream_reads_whole_requests_of_many_parts(
    programs: Path, upstream_port: int, scenario: Scenario
) -> None:
    arguments = ["-p", str(upstream_port), *scenario.arguments, "-x", "20", "-n", "60"]
    report = run_load(programs / "loadgen", arguments, 5.0, core=0)
    assert report.requests >= 60
    assert report.failures == 0
