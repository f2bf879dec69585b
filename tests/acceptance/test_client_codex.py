"""Codex, which speaks Responses and nothing else, as a user runs it: `codex exec`.

It sends tools of types that only OpenAI's own models know (`namespace`, `web_search`), its session
as a header and as the cache key, and shows nothing at all if an item's last event is missing.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_run import CLIENTS, client_environment, clients_folder

pytestmark = pytest.mark.timeout(300)

_RUN_SECONDS = 120
# Its folder is empty and its commands are ours; its own sandbox needs more than a test may have.
_OPTIONS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_CONFIGURATION = f"""\
model = "{GPT_OSS}"
model_provider = "penstock"
[model_providers.penstock]
name = "Penstock"
base_url = "%s/v1"
env_key = "PENSTOCK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""


class Codex:
    """One user's Codex, told of a cell by its configuration file alone."""

    def __init__(self, cell: ClientCell, folder: Path) -> None:
        installed = clients_folder("node", CLIENTS / "node" / "package-lock.json")
        self._program = installed / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "config.toml").write_text(_CONFIGURATION % cell.url)
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
