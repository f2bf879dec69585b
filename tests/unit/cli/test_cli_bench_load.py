"""What `penstock bench` sends: texts of a known length, sessions that grow, traces with words."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.bench.agents import AgentLoad
from penstock.cli.bench.load import BenchConversation, text_of
from penstock.cli.bench.trace import TraceLine, TraceLoad, read_trace, sessions_of
from penstock.cli.exit_codes import CommandFailed


def line(at: float, *blocks: int, tokens: int = 0, session: str | None = None) -> TraceLine:
    return TraceLine(at, tokens or 512 * len(blocks), 10, blocks, session)


@given(st.integers(1, 200_000), st.integers())
def test_text_has_a_word_of_four_bytes_for_each_token(tokens: int, name: int) -> None:
    text = text_of(tokens, name)
    assert len(text.split()) == tokens
    assert len(text) == 4 * tokens - 1


@given(st.integers(), st.integers())
def test_texts_of_other_names_differ_from_their_first_block_on(one: int, other: int) -> None:
    assert text_of(50, "a", one) == text_of(50, "a", one)
    assert (text_of(50, one)[:64] == text_of(50, other)[:64]) is (one == other)


def test_sessions_share_their_system_prompt_and_nothing_else() -> None:
    one, other = AgentLoad(sessions=2, turns=3).load().conversations
    assert one.turns[0].messages[0] == other.turns[0].messages[0]
    assert one.turns[0].messages[0].role == "system"
    assert not set(one.turns[0].messages[1:]) & set(other.turns[0].messages[1:])
    assert [len(turn.messages) for turn in one.turns] == [2, 1, 1]
    assert one.session != other.session


def test_sessions_begin_at_the_rate_and_pause_before_every_turn_but_the_first() -> None:
    load = AgentLoad(sessions=400, turns=2, rate=4.0, think_seconds=2.0).load()
    conversations = list(load.conversations)
    assert conversations[-1].starts_at == pytest.approx(100, rel=0.3)
    assert all(each.turns[0].pause_seconds == 0 for each in conversations)
    pauses = [each.turns[1].pause_seconds for each in conversations]
    assert sum(pauses) / len(pauses) == pytest.approx(2.0, rel=0.3)


def test_other_seeds_have_other_texts_and_the_same_times() -> None:
    def of(seed: int) -> list[BenchConversation]:
        return list(AgentLoad(sessions=3, turns=2, rate=1.0, seed=seed).load().conversations)

    assert [each.starts_at for each in of(1)] == [each.starts_at for each in of(2)]
    assert of(1)[0].turns[0].messages != of(2)[0].turns[0].messages


def test_session_ends_before_its_prompt_is_too_long() -> None:
    agents = AgentLoad(
        turns=10, system_tokens=100, first_tokens=100, turn_tokens=90, output_tokens=10,
        prompt_tokens_max=450,
    )  # fmt: skip
    load = agents.load()
    assert {len(each.turns) for each in load.conversations} == {3}
    assert load.requests == 20 * 3


def test_prompts_of_a_trace_share_messages_as_far_as_they_share_blocks() -> None:
    load = TraceLoad().load([line(0, 1, 2, 3), line(1000, 1, 2, 4)], "t")
    one, other = ([*each.turns[0].messages] for each in load.conversations)
    assert one[:2] == other[:2]
    assert one[2] != other[2]
    assert [message.role for message in one] == ["system", "user", "assistant", "user"]


def test_prompt_of_a_trace_has_its_length_and_no_more_than_allowed() -> None:
    load = TraceLoad(prompt_tokens_max=1_000).load(
        [line(0, 1, 2, tokens=700), line(0, *range(9))], "t"
    )
    short, long = (
        sum(len(m.content) for m in each.turns[0].messages) for each in load.conversations
    )
    assert short / 4 == pytest.approx(700, abs=4)
    assert long / 4 == pytest.approx(1_000, abs=4)


def test_requests_of_a_trace_come_at_its_times_by_the_speed() -> None:
    load = TraceLoad(speed=2.0).load([line(5_000, 2), line(1_000, 1)], "t")
    assert [each.starts_at for each in load.conversations] == [0.0, 2.0]


def test_requests_that_extend_each_other_are_one_session() -> None:
    lines = [line(0, 1, 2), line(1, 7, 8), line(2, 1, 2, 3), line(3, 7, 9), line(4, 1, 2, 3, 4)]
    assert sessions_of(lines) == ["0", "1", "0", "1", "0"]


def test_beginning_that_many_share_makes_no_session_of_them() -> None:
    lines = [line(number, 0, 100 + number) for number in range(30)]
    assert len(set(sessions_of(lines))) == 30


def test_session_that_a_trace_names_is_taken() -> None:
    assert sessions_of([line(0, 1, session="a"), line(1, 1, session="b")]) == ["a", "b"]


def test_only_as_many_lines_are_read_as_are_wanted(tmp_path: Path) -> None:
    row = {"timestamp": 1, "input_length": 5, "output_length": 2, "hash_ids": [1]}
    file = tmp_path / "trace.jsonl"
    file.write_text("\n\n".join(json.dumps(row) for _ in range(5)))
    assert len(read_trace(file, 3)) == 3


BROKEN_SESSION = (
    '{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1],"session":"a\\r\\nb: c"}'
)


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"timestamp": -1}', BROKEN_SESSION])
def test_file_that_is_no_trace_is_refused_with_what_a_line_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(text)
    with pytest.raises(CommandFailed, match=r"request 1: .*hash_ids|no requests"):
        read_trace(file, 10)
