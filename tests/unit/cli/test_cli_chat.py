"""`penstock chat`: what a line means, what goes up, what is read of an answer, and its figures."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.cli.chat.answer_events import AnswerEvents, Piece
from penstock.cli.chat.conversation import Conversation, TurnUsage
from penstock.cli.chat.screen import AnswerText, TurnTimes, figures_line, totals_line
from penstock.cli.chat.slash import HELP, Slash, Typed, understand
from penstock.cli.chat.word_wrap import WordWrap
from penstock.cli.dollars import exact_usd
from penstock.cli.exit_codes import CommandFailed


def talk() -> Conversation:
    return Conversation("m", "s")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("hello", Typed(None, "hello")),
        ("  hello  ", Typed(None, "hello")),
        ("/model", Typed(Slash.MODEL, "")),
        ("/model  @cf/x/y ", Typed(Slash.MODEL, "@cf/x/y")),
        ("/system You are brief.", Typed(Slash.SYSTEM, "You are brief.")),
        ("//etc/passwd", Typed(None, "/etc/passwd")),
        ("   ", None),
    ],
)
def test_line_is_said_or_obeyed(line: str, meant: Typed | None) -> None:
    assert understand(line) == meant


def test_unknown_command_is_not_said_to_the_model() -> None:
    with pytest.raises(ValueError, match="/modle"):
        understand("/modle x")


def test_every_command_is_in_the_help() -> None:
    assert {line.split()[0] for line in HELP} == {command.value for command in Slash}


def test_each_prompt_begins_as_the_last_one_did() -> None:
    conversation = talk()
    conversation.system = "Be brief."
    first = json.loads(conversation.body("one"))["messages"]
    conversation.said("one", "1", TurnUsage())
    second = json.loads(conversation.body("two"))["messages"]
    assert second[: len(first)] == first
    assert second[-2:] == [
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]


def test_what_was_not_answered_is_not_kept() -> None:
    conversation = talk()
    conversation.body("lost")
    assert len(json.loads(conversation.body("again"))["messages"]) == 1


def test_picture_goes_with_one_message() -> None:
    conversation = talk()
    conversation.attach("cat.PNG", "QUJD")
    content = json.loads(conversation.body("what?"))["messages"][0]["content"]
    assert content[0]["image_url"]["url"] == "data:image/png;base64,QUJD"
    assert content[1] == {"type": "text", "text": "what?"}
    conversation.said("what?", "a cat", TurnUsage())
    assert json.loads(conversation.body("and now?"))["messages"][-1]["content"] == "and now?"


def test_file_that_is_no_picture_is_refused() -> None:
    with pytest.raises(ValueError, match=r"notes\.txt"):
        talk().attach("notes.txt", "QUJD")


def test_new_session_forgets_what_was_said() -> None:
    conversation = talk()
    conversation.said("one", "1", TurnUsage())
    conversation.restart("other")
    assert conversation.session == "other"
    assert len(json.loads(conversation.body("two"))["messages"]) == 1


STREAM = [
    b": keepalive\n",
    b"\n",
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n',
    b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,'
    b'"prompt_tokens_details":{"cached_tokens":64}}}\n',
    b": cost-usd 0.000012300\n",
    b"data: [DONE]\n",
]


def test_stream_gives_words_thoughts_counts_and_cost() -> None:
    events = AnswerEvents(STREAM)
    assert list(events) == [Piece("hm", is_thought=True), Piece("Hi")]
    assert events.usage == TurnUsage(100, 64, 5, "0.000012300")


def test_stream_that_was_cut_has_unknown_counts() -> None:
    events = AnswerEvents(STREAM[:5])
    assert list(events)
    assert events.usage == TurnUsage(None, None, None, None)


def test_error_in_the_stream_is_told() -> None:
    broken = AnswerEvents([b'data: {"error":{"message":"The engine went away.","code":"x"}}\n'])
    with pytest.raises(CommandFailed, match="The engine went away"):
        list(broken)


def test_figures_say_what_is_cached_and_what_is_unknown() -> None:
    known = figures_line(TurnUsage(1000, 750, 21, "0.0005"), TurnTimes(0.5, 2.5), "replica-00ff")
    assert known == (
        "1,000 prompt (750 cached, 75%) · 21 output · first token 0.50 s · 10 tokens/s · $0.0005"
        " · moved to replica 00ff"
    )
    unknown = figures_line(TurnUsage(), TurnTimes())
    assert unknown == "unknown prompt (cached unknown) · unknown output · cost unknown"


def test_totals_add_up() -> None:
    conversation = talk()
    conversation.said("a", "b", TurnUsage(100, 0, 10, "0.000100000"))
    conversation.said("c", "d", TurnUsage(300, 100, 10, "0.000200000"))
    assert totals_line(conversation.totals) == (
        "2 turns · 400 prompt tokens, 25% of them cached · 20 output tokens · $0.0003"
    )


def test_totals_say_which_turns_are_of_unknown_cost() -> None:
    conversation = talk()
    conversation.said("a", "b", TurnUsage(100, None, 10, None))
    assert totals_line(conversation.totals) == (
        "1 turn · 100 prompt tokens, none of them cached · 10 output tokens · cost unknown"
    )
    conversation.said("c", "d", TurnUsage(300, 150, 10, "0.000200000"))
    assert totals_line(conversation.totals) == (
        "2 turns · 400 prompt tokens, 50% of them cached · 20 output tokens · $0.0002 and 1 of"
        " unknown cost"
    )


@given(st.lists(st.text("ab \n", max_size=9), max_size=20), st.integers(4, 30))
def test_streamed_words_are_broken_between_words_and_none_is_lost(
    pieces: list[str], width: int
) -> None:
    wrap = WordWrap(width)
    shown = "".join([wrap.feed(piece) for piece in pieces]) + wrap.end()
    assert shown.split() == "".join(pieces).split()
    fitting = [
        line for line in shown.split("\n") if all(len(word) <= width for word in line.split())
    ]
    assert all(len(line) <= width for line in fitting)


def test_models_words_cannot_steer_the_terminal() -> None:
    out = Console(file=io.StringIO(), width=80, color_system=None)
    with AnswerText(out) as shown:
        shown.add(Piece("safe\x1b]52;c;ZXZpbA==\x1b\\ \x9b2Jtext\x07\n"))
    assert isinstance(out.file, io.StringIO)
    assert not set("\x1b\x9b\x07") & set(out.file.getvalue())
    assert "safe" in out.file.getvalue()


@pytest.mark.parametrize(
    ("cost", "shown"),
    [("0", "$0.00"), ("0.000000000", "$0.00"), ("0.100", "$0.10"), ("12.0000123", "$12.0000123")],
)
def test_dollars_have_the_digits_that_say_something(cost: str, shown: str) -> None:
    assert exact_usd(cost) == shown
