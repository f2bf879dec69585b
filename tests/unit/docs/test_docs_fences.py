"""What the docs' runner takes for a block, for a mark, and for the same answer."""

from pathlib import Path

import pytest
from tests.acceptance.docs_blocks import Block, BlockError, Cell, Page, Way, read_page, shell_lines
from tests.acceptance.docs_page import replaced
from tests.acceptance.docs_reading import (
    check_command,
    compare,
    dry_run,
    penstock_commands,
    read_block,
    read_json,
    unlike,
)


def page_of(tmp_path: Path, *lines: str) -> Page:
    path = tmp_path / "page.md"
    path.write_text("\n".join(lines) + "\n")
    return read_page(path, tmp_path)


def block(language: str, text: str, **marks: str) -> Block:
    return Block("page.md", 1, language, text, marks)


def test_indented_fence_of_a_tab_loses_its_indentation_and_no_more(tmp_path: Path) -> None:
    lines = ['=== "Python"', "", "    ```python", "    if a:", "        b()", "", "    ```"]
    (found,) = page_of(tmp_path, *lines).blocks
    assert (found.language, found.line, found.text) == ("python", 3, "if a:\n    b()\n\n")


def test_longer_fence_holds_a_shorter_one(tmp_path: Path) -> None:
    (found,) = page_of(tmp_path, "````text", "```bash", "ls", "```", "````").blocks
    assert found.text == "```bash\nls\n```\n"


def test_marks_belong_to_the_next_fence_only(tmp_path: Path) -> None:
    lines = ["<!-- block: exit: 1 -->", "<!-- block: clients -->", "```sh title=x", "a", "```"]
    first, second = page_of(tmp_path, *lines, "", "```sh", "b", "```").blocks
    assert first.marks == {"exit": "1", "clients": ""}
    assert second.marks == {}


@pytest.mark.parametrize(
    "lines",
    [
        ["```bash", "ls"],
        ["> ```bash", "> ls", "> ```"],
        ["<!-- block: dry -->", "```bash", "ls", "```"],
        ["<!-- block: answer: yes -->", "```json", "{}", "```"],
        ["<!-- block: wet: no -->", "```bash", "ls", "```"],
        ["<!-- block: dry: a word between -->", "as here", "```bash", "ls", "```"],
        ["<!-- page: two cells -->"],
    ],
)
def test_page_that_is_not_understood_is_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(BlockError):
        page_of(tmp_path, *lines)


def test_page_says_what_runs_beside_it(tmp_path: Path) -> None:
    assert page_of(tmp_path, "# Title").cell is Cell.SCRIPTED
    assert page_of(tmp_path, "# Title", "", "<!-- page: no cell -->").cell is Cell.NONE


@pytest.mark.parametrize(
    ("language", "marks", "way"),
    [
        ("bash", {}, Way.RUN),
        ("mjs", {}, Way.RUN),
        ("toml", {}, Way.READ),
        ("json", {"save": "opencode.json"}, Way.RUN),
        ("text", {}, Way.SHOWN),
        ("text", {"answer": ""}, Way.READ),
        ("bash", {"dry": "needs a GPU"}, Way.DRY),
        ("nginx", {"shown": "its own"}, Way.SHOWN),
    ],
)
def test_every_block_has_one_way(language: str, marks: dict[str, str], way: Way) -> None:
    assert block(language, "", **marks).way is way


def test_language_without_a_reader_needs_a_mark() -> None:
    with pytest.raises(BlockError, match="no way to run it"):
        _ = block("nginx", "server {}").way


def test_console_runs_what_stands_behind_the_prompt() -> None:
    text = "$ curl a \\\n    -d b\n{}\n$ ls\nfile\n"
    assert shell_lines(block("console", text)) == "curl a \\\n    -d b\nls\n"
    with pytest.raises(BlockError):
        shell_lines(block("console", "ls\n"))


def test_placeholder_is_replaced_as_a_word_and_not_as_a_variable() -> None:
    text = 'show ID $ID ${ID} KEY_ID "ID" http://127.0.0.1:8787/v1'
    words = {"ID": "7", "127.0.0.1:8787": "127.0.0.1:1"}
    assert replaced(text, words) == 'show 7 $ID ${ID} KEY_ID "7" http://127.0.0.1:1/v1'


def test_commands_of_ours_are_found_wherever_they_stand() -> None:
    text = (
        "A=1 penstock jobs list | head  # first\nsudo /opt/bin/penstock \\\n  keeper; ls penstock\n"
    )
    assert list(penstock_commands(text)) == [["jobs", "list"], ["keeper"]]


@pytest.mark.parametrize(
    "text",
    ["if true\n", "penstock frob\n", "penstock up --frob\n", "penstock up --port many\n"],
)
def test_dry_run_refuses_what_bash_or_our_command_line_would(text: str) -> None:
    with pytest.raises(BlockError):
        dry_run(block("bash", text, dry="needs a GPU"))


def test_dry_run_checks_something_or_is_refused() -> None:
    dry_run(block("python", "import torch\n", dry="needs a GPU"))
    with pytest.raises(SyntaxError):
        dry_run(block("python", "import\n", dry="needs a GPU"))
    with pytest.raises(BlockError, match="cannot be checked"):
        dry_run(block("nginx", "server {}\n", dry="needs nginx"))


def test_dry_run_of_a_unit_looks_at_what_it_starts() -> None:
    dry_run(block("ini", "[Service]\nExecStart=/opt/penstock keeper\n", dry="systemd"))
    with pytest.raises(BlockError):
        dry_run(block("ini", "[Service]\nExecStart=/opt/penstock kept\n", dry="systemd"))


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    check_command("page.md:1", ["--version"])
    check_command("page.md:1", ["jobs", "list", "--help"])
    assert "penstock" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("[ingress]\nport = 'many'\n", {}),
        ("[ingres]\nport = 1\n", {}),
        ('id = "@a/b"\n', {"catalogue": ""}),
        ("[prices]\ninput = 1\n", {"catalogue": "kimi-k2.5"}),
        ("[ingress\n", {"parse": ""}),
    ],
)
def test_wrong_toml_is_refused_by_its_own_reader(text: str, marks: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_block(block("toml", text, **marks))


def test_right_toml_is_read() -> None:
    read_block(block("toml", "[ingress]\nport = 1\n"))
    read_block(block("toml", "x = 1\n", parse=""))
    read_block(block("toml", "context_tokens = 100_000\n", catalogue="kimi-k2.5"))


def test_json_may_have_comments_and_end_in_and_so_on() -> None:
    assert read_json('// first\n{"a": [1, …], …}') == {"a": [1, "…"], "…": None}
    assert read_json('{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]


def test_answers_are_alike_when_their_keys_and_kinds_are() -> None:
    real = {"id": "x", "usage": {"n": 3}, "error": None, "data": [{"a": 1}, {"b": 2}]}
    assert (
        unlike({"id": "…", "usage": {"n": 9}, "error": {}, "data": [{"a": 7}]}, real, "$") is None
    )
    assert unlike({"id": "…", "…": None}, real, "$") is None
    assert "$.data[0]" in (unlike({"data": [{"c": 1}], "…": None}, real, "$") or "")
    assert "not shown" in (unlike({"id": "…"}, real, "$") or "")
    assert "$.usage" in (unlike({"usage": "3", "…": None}, real, "$") or "")


def test_shown_table_needs_the_same_columns() -> None:
    printed = "id    state  cost\n0192  done   $0.10\n"
    compare(block("text", "id  state  cost\n…   done  $3\n"), printed)
    with pytest.raises(BlockError):
        compare(block("text", "id  status  cost\n"), printed)


def test_shown_body_is_compared_behind_the_head_of_curl() -> None:
    printed = 'HTTP/1.1 202 Accepted\r\nretry-after: 5\r\n\r\n{"id": "a", "state": "queued"}'
    compare(block("json", '{"id": "…", "state": "…"}'), printed)
    with pytest.raises(BlockError):
        compare(block("json", '{"id": "…"}'), printed)
