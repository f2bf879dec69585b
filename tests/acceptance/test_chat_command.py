"""`penstock chat` in a terminal: answers as they come, figures after each turn, its commands."""

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import PENSTOCK, until
from tests.acceptance.client_cell import GPT_OSS, KIMI, ClientCell
from tests.acceptance.terminal_picture import Terminal

SECONDS = 20.0
# More than the slow answer below has.
TOKENS = 12
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def command(cell: ClientCell, folder: Path, *options: str) -> list[str]:
    key = folder / "key"
    key.write_text(cell.key)
    reach = ("--url", cell.url, "--key-file", str(key), "--model", KIMI)
    return [*PENSTOCK, "chat", *reach, *options]


@pytest.fixture
def chat(scripted_cell: ClientCell, tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path, command(scripted_cell, tmp_path), rows=34) as terminal:
        terminal.wait_for("/help lists the commands", SECONDS)
        yield terminal


def say(chat: Terminal, line: str, mark: str) -> list[str]:
    chat.press(line, "Enter")
    return chat.wait_for(mark, SECONDS)


def begin_answer(chat: Terminal, interval: float) -> None:
    """Ask for a slow answer, and wait for its first word."""
    script = f'{{"text":"turning round and round","interval":{interval}}}'
    chat.press(f"Go on @script {script}", "Enter")
    until(lambda: any(line.startswith("turning") for line in chat.lines), SECONDS)


def test_turns_are_shown_with_tokens_cached_tokens_and_cost(chat: Terminal, tmp_path: Path) -> None:
    system = "You are an engineer who explains how water is led to turbines, in plain words."
    say(chat, f"/system {system}", "system: You are")
    say(chat, "What is a penstock?", "first token")
    chat.press("And a surge tank?", "Enter")

    def two_turns() -> list[str] | None:
        figures = [line for line in chat.lines if " prompt (" in line]
        return figures if len(figures) == 2 else None

    figures = until(two_turns, SECONDS)
    cached = [int(re.findall(r"\((\d+) cached", line)[0]) for line in figures]
    assert cached[1] > 0
    assert all(re.search(r"\$0\.\d{4,9}", line) for line in figures), figures
    chat.check_layout()
    assert chat.picture(tmp_path / "chat.png").stat().st_size > 10_000
    chat.press("C-d")
    assert chat.wait_for_end(SECONDS) == 0
    assert any(line.startswith("2 turns · ") for line in chat.lines)


def test_models_can_be_listed_and_changed(chat: Terminal) -> None:
    say(chat, "/model", f"→ {KIMI}")
    say(chat, f"/model {GPT_OSS}", f"→ {GPT_OSS}")
    say(chat, "/model nobody/has-it", "is not one of")
    say(chat, "/help", "end, as Ctrl-D does")
    chat.check_layout()


def test_picture_reaches_the_model(
    chat: Terminal, scripted_cell: ClientCell, tmp_path: Path
) -> None:
    picture = tmp_path / "dam.png"
    picture.write_bytes(PIXEL)
    scripted_cell.forget()
    say(chat, f"/image {picture.name}", "goes with the next message")
    say(chat, "What is this?", "first token")
    body = scripted_cell.requests()[-1]["body"]
    url = body["messages"][-1]["content"][0]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2]) == PIXEL


def test_ctrl_c_stops_the_answer_and_not_the_conversation(chat: Terminal) -> None:
    begin_answer(chat, 1.0)
    chat.press("C-c")
    # It was cut: the tokens are known by the last chunk, the cost is told at an answer's end.
    (line,) = [line for line in chat.wait_for(" prompt (", SECONDS) if " prompt (" in line]
    tokens = re.match(r"(\d+) prompt .* · (\d+) output", line)
    assert tokens is not None, line
    assert int(tokens[1]) > 0
    assert 0 < int(tokens[2]) < TOKENS
    assert "cost unknown" in line
    say(chat, "Still there?", "$0.0")


def test_typing_during_an_answer_waits_for_the_prompt(chat: Terminal) -> None:
    begin_answer(chat, 0.7)
    chat.press("typed meanwhile")
    lines = chat.wait_for("> typed meanwhile", SECONDS)
    (end,) = [number for number, line in enumerate(lines) if " prompt (" in line]
    assert not any("typed" in line for line in lines[: end + 1]), lines
    assert any("turning round and round" in line for line in lines)
    # Echo is on again, and the line is a message.
    chat.press(", and after", "Enter")
    chat.wait_for("typed meanwhile, and after", SECONDS)


def test_refusal_is_told_and_the_message_can_be_sent_again(chat: Terminal) -> None:
    say(chat, 'Say @script {"status":400}', "The script asked for this error.")
    say(chat, "Say hello.", "first token")
    chat.check_layout()


def test_lines_may_come_from_a_pipe(scripted_cell: ClientCell, tmp_path: Path) -> None:
    run = subprocess.run(
        command(scripted_cell, tmp_path, "--session", "piped"),
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.count(" prompt (") == 2
    assert scripted_cell.session("piped", turns=2)["turn_count"] == 2


def test_ctrl_c_before_the_answer_leaves_nothing_behind(chat: Terminal) -> None:
    chat.press('Go on @script {"stall_before_head":30}', "Enter")
    chat.wait_for("@script", SECONDS)
    chat.press("C-c")
    chat.wait_for("Stopped before anything was answered.", SECONDS)
    say(chat, "Still there?", "first token")
