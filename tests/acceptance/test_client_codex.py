"""Codex, which speaks Responses and nothing else, as a user runs it: `codex exec`.

It sends tools of types that only OpenAI's own models know (`namespace`, `web_search`), its session
as a header and as the cache key, and shows nothing at all if an item's last event is missing.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, KIMI_NEXT, ClientCell
from tests.acceptance.client_contracts import (
    ERROR,
    NOTE,
    STRIP,
    check_equal_tools,
    check_words,
    offered,
    turns,
)
from tests.acceptance.client_run import CLIENTS, client_environment, clients_folder

pytestmark = pytest.mark.timeout(300)

_RUN_SECONDS = 120
# Its folder is empty and its commands are ours; its own sandbox needs more than a test may have.
_OPTIONS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_CONFIGURATION = """\
model = "{model}"
model_provider = "penstock"
[model_providers.penstock]
name = "Penstock"
base_url = "{url}/v1"
env_key = "PENSTOCK_KEY"
wire_api = "responses"
{provider}
[analytics]
enabled = false
"""
_WITHOUT_RETRIES = "request_max_retries = 0\nstream_max_retries = 0"
# Chat cannot carry namespaces, as which Codex offers its sub-agents.
_CONTRACTED = """\
http_headers = {{ "x-penstock-workflow" = "{}" }}
[features]
multi_agent = false
"""


class Codex:
    """One user's Codex, told of a cell by its configuration file alone."""

    def __init__(
        self,
        cell: ClientCell,
        folder: Path,
        model: str = GPT_OSS,
        provider: str = _WITHOUT_RETRIES,
    ) -> None:
        installed = clients_folder("node", CLIENTS / "node" / "package-lock.json")
        self._program = installed / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
        self.work = folder / "work"
        self.work.mkdir()
        written = _CONFIGURATION.format(model=model, url=cell.url, provider=provider)
        (folder / "config.toml").write_text(written)
        self._environment = client_environment(cell, str(folder), {"codex_home": str(folder)})

    def run(self, prompt: str, *options: str) -> list[dict[str, Any]]:
        """What it tells of its run: the thread, its items, and how the turn ended."""
        done = subprocess.run(
            ["node", self._program, "exec", *_OPTIONS, *options, "-"],
            input=prompt,
            env=self._environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_SECONDS,
        )
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert events, done.stderr[-2000:]
        return events


@pytest.fixture
def codex(scripted_cell: ClientCell, tmp_path: Path) -> Codex:
    scripted_cell.forget()
    return Codex(scripted_cell, tmp_path)


def items(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item for item in done if item["type"] == kind]


def test_command_is_run_and_its_output_goes_back(codex: Codex, scripted_cell: ClientCell) -> None:
    command = json.dumps({"cmd": "echo 2.5 metres > level.txt && cat level.txt"})
    events = codex.run(f"CALL exec_command {command}")
    (ran,) = items(events, "command_execution")
    assert (ran["aggregated_output"], ran["exit_code"]) == ("2.5 metres\n", 0)
    assert (codex.work / "level.txt").read_text() == "2.5 metres\n"
    assert items(events, "agent_message")[-1]["text"]
    assert events[-1]["type"] == "turn.completed"

    session = events[0]["thread_id"]
    turns = scripted_cell.session(session, 2)["turns"]
    usage = events[-1]["usage"]
    assert usage["input_tokens"] == sum(turn["prompt_tokens"] for turn in turns)
    assert usage["cached_input_tokens"] == sum(turn["cached_tokens"] for turn in turns) > 0
    assert usage["output_tokens"] == sum(turn["output_tokens"] for turn in turns)
    first, second = (each["body"] for each in scripted_cell.requests())
    # It offered others too: vLLM refuses a whole request of gpt-oss for those.
    assert {tool["type"] for tool in first["tools"]} == {"function"}
    assert second["input"][-1]["type"] == "function_call_output"


def test_resumed_thread_is_the_same_session(codex: Codex, scripted_cell: ClientCell) -> None:
    first = codex.run("What turns the wheel of a mill?")
    second = codex.run("And what turns the stone?", "resume", "--last")
    session = first[0]["thread_id"]
    assert second[0]["thread_id"] == session
    assert items(second, "agent_message")[-1]["text"]
    turns = scripted_cell.session(session, 2)["turns"]
    assert len(turns) == 2
    assert turns[1]["cached_tokens"] > 0
    assert len({each["body"]["session_id"] for each in scripted_cell.requests()}) == 1


def test_nothing_is_stored_of_a_thread_and_its_commands(
    codex: Codex, scripted_cell: ClientCell
) -> None:
    tables = ("responses", "conversations", "conversation_items")
    rows = [scripted_cell.count_rows(table) for table in tables]
    command = json.dumps({"cmd": "echo 2.5 metres"})
    events = codex.run(f"CALL exec_command {command}")
    assert events[-1]["type"] == "turn.completed"
    # The cell stores what does not say otherwise; Codex says so with each request.
    assert len(scripted_cell.requests()) == 2
    assert [scripted_cell.count_rows(table) for table in tables] == rows


def test_refusal_is_shown_with_its_text(codex: Codex) -> None:
    events = codex.run('@script {"status": 400, "message": "The mill is closed."}')
    assert events[-1]["type"] == "turn.failed"
    assert "The mill is closed." in events[-1]["error"]["message"]


def test_stream_that_is_cut_fails_the_turn(codex: Codex) -> None:
    events = codex.run('@script {"tokens": 40, "cut_after": 8}')
    assert events[-1]["type"] == "turn.failed"


def contracted(cell: ClientCell, folder: Path, workflow: str, model: str = GPT_OSS) -> Codex:
    """With the retries that it makes by itself."""
    cell.forget()
    return Codex(cell, folder, model, _CONTRACTED.format(workflow))


SHELL = ("exec_command", json.dumps({"cmd": "echo x > ran.txt"}))


@pytest.mark.parametrize("model", [GPT_OSS, KIMI_NEXT], ids=["engine", "composed"])
def test_forbidden_tool_is_not_run_and_its_error_is_shown(
    contracted_cell: ClientCell, tmp_path: Path, model: str
) -> None:
    codex = contracted(contracted_cell, tmp_path, ERROR, model)
    events = codex.run(f"CALL {' '.join(SHELL)}")
    assert not (codex.work / "ran.txt").exists()
    assert not items(events, "command_execution")
    assert events[-1]["type"] == "turn.failed"
    told = events[-1]["error"]["message"]
    # Not behind "stream disconnected", as what it asks for again.
    assert told.startswith("The contract")
    check_words(told, ERROR, "exec_command")
    assert ["exec_command" in offered(turn) for turn in turns(contracted_cell)] == [True]


def test_note_takes_the_place_of_a_forbidden_tool_and_the_agent_goes_on(
    contracted_cell: ClientCell, tmp_path: Path
) -> None:
    codex = contracted(contracted_cell, tmp_path, NOTE, KIMI_NEXT)
    events = codex.run(f"CALL {' '.join(SHELL)} CALL get_goal {{}}")
    assert not (codex.work / "ran.txt").exists()
    note, answer = items(events, "agent_message")
    check_words(note["text"], NOTE, "exec_command")
    assert answer["text"]
    assert events[-1]["type"] == "turn.completed"
    # The model reads the note, and what the allowed call gave.
    (second,) = turns(contracted_cell)[1:]
    *_, said, result = second["body"]["messages"]
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["get_goal"]
    assert "goal" in result["content"]
    assert said["content"] == note["text"]


def test_note_is_an_error_where_the_engine_makes_the_response(
    contracted_cell: ClientCell, tmp_path: Path
) -> None:
    codex = contracted(contracted_cell, tmp_path, NOTE)
    events = codex.run(f"CALL {' '.join(SHELL)} CALL get_goal {{}}")
    assert not (codex.work / "ran.txt").exists()
    check_words(events[-1]["error"]["message"], NOTE, "exec_command")
    assert len(turns(contracted_cell)) == 1


def test_forbidden_tools_are_offered_in_no_turn(
    contracted_cell: ClientCell, tmp_path: Path
) -> None:
    codex = contracted(contracted_cell, tmp_path, STRIP)
    events = codex.run("CALL get_goal {}")
    assert events[-1]["type"] == "turn.completed"
    first, second = turns(contracted_cell)
    assert offered(first) == {"get_goal"}
    check_equal_tools(first, second)
    assert "goal" in second["body"]["input"][-1]["output"]
    assert events[-1]["usage"]["cached_input_tokens"] > 0


def test_tool_that_is_not_offered_is_not_run_either(
    contracted_cell: ClientCell, tmp_path: Path
) -> None:
    codex = contracted(contracted_cell, tmp_path, STRIP)
    events = codex.run(f"@script {json.dumps({'calls': [SHELL]})}")
    assert not (codex.work / "ran.txt").exists()
    check_words(events[-1]["error"]["message"], STRIP, "exec_command")
