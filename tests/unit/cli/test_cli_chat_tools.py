"""Tools of `penstock chat`: what is switched, asked, shown, kept and saved."""

import io
import json
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from rich.console import Console

from penstock.cli.chat.answer_events import Piece
from penstock.cli.chat.chat_tools import ChatTools
from penstock.cli.chat.conversation import Conversation, TurnUsage
from penstock.cli.chat.saved_files import CitedFile, safe_name, save_files
from penstock.cli.chat.screen import AnswerText
from penstock.cli.chat.tool_events import ToolEvents
from penstock.cli.exit_codes import CommandFailed

CALL = {"type": "code_interpreter_call", "outputs": [{"type": "logs", "logs": "42\n"}]}
CITED = {
    "type": "container_file_citation",
    "container_id": "cntr_1",
    "file_id": "cfile_1",
    "filename": "table.csv",
}
END = {"usage": {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {}}}


def stream(*events: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n" for event in events]


def test_tools_are_switched_and_named_in_the_request() -> None:
    tools = ChatTools()
    assert not tools
    assert tools.shown() == "tools: none"
    tools.obey("code on")
    tools.obey("mcp docs on")
    tools.obey("mcp docs on")
    assert tools.shown() == "tools: code, mcp docs"
    assert [entry["type"] for entry in tools.entries()] == ["code_interpreter", "mcp"]
    tools.obey("code off")
    assert tools.shown() == "tools: mcp docs"
    tools.obey("off")
    assert not tools


@pytest.mark.parametrize("line", ["code", "code maybe", "mcp on", "shell on", "code on now"])
def test_a_line_that_switches_nothing_says_what_would(line: str) -> None:
    tools = ChatTools()
    with pytest.raises(CommandFailed, match="/tools code on"):
        tools.obey(line)
    assert not tools


def test_code_output_text_and_files_are_read() -> None:
    events = ToolEvents(
        [
            b": keepalive\n",
            *stream(
                {"type": "response.code_interpreter_call_code.done", "code": "print(6*7)"},
                {"type": "response.output_item.done", "item": CALL},
                {"type": "response.output_text.delta", "delta": "It is 42."},
                {"type": "response.output_text.annotation.added", "annotation": CITED},
                {"type": "response.output_item.done", "item": {"type": "message", "id": "m"}},
            ),
            b": cost-usd 0.5\n",
            *stream({"type": "response.completed", "response": END}),
        ]
    )
    assert list(events) == [
        Piece("▸ runs Python\n│ print(6*7)\n", is_tool=True),
        Piece("▸ printed\n│ 42\n", is_tool=True),
        Piece("It is 42."),
    ]
    assert events.files == [CitedFile("cntr_1", "cfile_1", "table.csv")]
    assert events.items == [CALL, {"type": "message", "id": "m"}]
    assert events.usage == TurnUsage(9, None, 3, "0.5")


def test_calls_of_mcp_servers_are_shown_and_unapproved_ones_are_not_repeated() -> None:
    named = {"server_label": "docs", "name": "find"}
    events = ToolEvents(
        stream(
            {"type": "response.output_item.added", "item": {"type": "mcp_call", **named}},
            {"type": "response.mcp_call_arguments.done", "arguments": '{"q": 1}'},
            {"type": "response.output_item.done", "item": {"type": "mcp_call", "output": "x"}},
            {
                "type": "response.output_item.done",
                "item": {"type": "mcp_approval_request", **named},
            },
        )
    )
    shown = "".join(piece.text for piece in events)
    assert '▸ calls docs.find\n│ {"q": 1}\n▸ gave\n│ x\n' in shown
    assert "docs.find was not called" in shown
    assert [item["type"] for item in events.items] == ["mcp_call"]


def test_much_output_is_shown_by_its_beginning_and_kept_whole() -> None:
    item = {**CALL, "outputs": [{"type": "logs", "logs": "y\n" * 300_000}]}
    events = ToolEvents(stream({"type": "response.output_item.done", "item": item}))
    [piece] = events
    assert len(piece.text.splitlines()) == 42
    assert "600,000 characters" in piece.text
    assert events.items == [item]


def test_text_that_was_cut_is_kept() -> None:
    events = ToolEvents(stream({"type": "response.output_text.delta", "delta": "It is"}))
    assert list(events)
    assert events.items == [{"role": "assistant", "content": "It is"}]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.failed", "response": {"error": {"message": "The engine left."}}},
        {"type": "error", "message": "The engine left."},
    ],
)
def test_a_failure_is_told(event: dict[str, Any]) -> None:
    with pytest.raises(CommandFailed, match="The engine left"):
        list(ToolEvents(stream(event)))


def test_what_tools_printed_is_no_part_of_the_answer_and_steers_no_terminal() -> None:
    out = Console(file=io.StringIO(), width=80, color_system=None)
    with AnswerText(out) as shown:
        shown.add(Piece("▸ printed\n│ \x1b[2Jx\n", is_tool=True))
        shown.add(Piece("Done."))
    assert shown.answer == "Done."
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == "▸ printed\n│ [2Jx\n\nDone.\n"


def test_items_are_repeated_with_tools_and_only_text_without() -> None:
    talk = Conversation("m", "s", system="Be brief.", max_tokens=9)
    talk.attach("cat.png", "QUJD")
    talk.said("6*7?", "It is 42.", TurnUsage(), [CALL, {"type": "message", "id": "m"}])
    tools = ChatTools()
    tools.obey("code on")
    body = json.loads(talk.tool_body("And?", tools.entries()))
    picture, *rest = body["input"]
    assert picture["content"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_text", "text": "6*7?"},
    ]
    assert rest == [CALL, {"type": "message", "id": "m"}, {"role": "user", "content": "And?"}]
    assert (body["instructions"], body["max_output_tokens"]) == ("Be brief.", 9)
    assert body["store"] is False
    messages = json.loads(talk.body("And?"))["messages"]
    assert messages[2] == {"role": "assistant", "content": "It is 42."}


@pytest.mark.parametrize(
    ("written", "safe"),
    [
        ("table.csv", "table.csv"),
        ("out/table.csv", "table.csv"),
        ("../../.bashrc", "bashrc"),
        ("..", "file"),
        ("C:\\x\\y.txt", "y.txt"),
        ("a\x1b[2J.txt", "a[2J.txt"),
        ("x" * 300 + ".png", "x" * 96 + ".png"),
    ],
)
def test_names_of_files_stay_in_their_folder(written: str, safe: str) -> None:
    assert safe_name(written) == safe


def test_files_are_saved_and_none_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "table.csv").symlink_to(tmp_path / "elsewhere")

    def download(file: CitedFile, target: BinaryIO) -> None:
        target.write(file.file_id.encode())

    saved = save_files(
        [CitedFile("c", "one", "table.csv"), CitedFile("c", "two", "a/table.csv")], folder, download
    )
    assert [path.name for path in saved] == ["table-2.csv", "table-3.csv"]
    assert saved[1].read_bytes() == b"two"
    assert not (tmp_path / "elsewhere").exists()


def test_a_download_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def download(file: CitedFile, target: BinaryIO) -> None:
        raise CommandFailed("gone")

    with pytest.raises(CommandFailed, match="gone"):
        save_files([CitedFile("c", "one", "table.csv")], tmp_path, download)
    assert not list(tmp_path.iterdir())
