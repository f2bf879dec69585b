"""The examples do what their README says, as a newcomer would run them."""

import csv
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.cli_run import until
from tests.acceptance.client_cell import KIMI, LLAMA, ClientCell

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BLOCKS = re.findall(r"```bash\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
# The data analyst needs a sandbox: test_example_data_analyst.py.
PLAIN_BLOCKS = [block for block in BLOCKS if "data_analyst.py" not in block]
RUN_SECONDS = 120

FOUND = {"line": 3, "severity": "high", "fault": "The gate is never closed."}
PLANTED = f"# @script {json.dumps({'text': json.dumps({'findings': [FOUND]})})}\n"
SLOW = '# @script {"stall_before_head": 8}\n'


@pytest.mark.parametrize("block", PLAIN_BLOCKS, ids=lambda block: re.findall(r"\w+[.]py", block)[0])
def test_commands_of_the_readme_work(scripted_cell: ClientCell, tmp_path: Path, block: str) -> None:
    for name, target in (
        (".venv", Path(sys.prefix)),
        ("examples", EXAMPLES),
        ("src", ROOT / "src"),
    ):
        (tmp_path / name).symlink_to(target)
    _run(["bash", "-euc", block], scripted_cell, tmp_path)


def test_every_example_is_in_the_readme() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(re.findall(r"examples/(\w+\.py)", "".join(BLOCKS)))


def test_agent_mends_a_folder_in_one_session_and_says_what_each_turn_cost(
    scripted_cell: ClientCell, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("outside")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "adding.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_adding.py").write_text(
        "from adding import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    )
    mended = {"path": "adding.py", "text": "def add(a, b):\n    return a + b\n"}
    shown = _example(
        scripted_cell,
        tmp_path,
        "coding_agent.py",
        str(folder),
        "Look around. CALL list_files {}",
        'CALL read_file {"path": "adding.py"}',
        'CALL read_file {"path": "../secret.txt"}',
        "CALL run_tests {}",
        f"CALL write_file {json.dumps(mended)}",
        "CALL run_tests {}",
        "--model",
        KIMI,
    )
    assert (folder / "adding.py").read_text() == mended["text"]
    said = re.findall(r"^  \w+ \{.*→ (.*)$", shown, re.MULTILINE)
    expected = ["adding.py", "return a - b", "outside of the folder", "exit code 1", "characters"]
    for line, words in zip(said, [*expected, "exit code 0"], strict=True):
        assert words in line

    session = re.search(r"coding-agent-\w+", shown)
    assert session is not None
    told = scripted_cell.session(session.group(), 12)
    assert told["turn_count"] == 12
    assert told["turns"][-1]["cached_tokens"] > told["turns"][1]["cached_tokens"] > 0
    spent = re.search(r"12 turns, .* cached, \$([\d.]+) spent", shown)
    assert spent is not None
    assert Decimal(spent.group(1)) == round(Decimal(told["cost_usd"]), 6)
    columns = re.findall(r"prompt +([\d,]+)  cached +([\d,]+)  output +([\d,]+)", shown)
    assert [[int(text.replace(",", "")) for text in turn] for turn in columns] == [
        [turn["prompt_tokens"], turn["cached_tokens"], turn["output_tokens"]]
        for turn in told["turns"]
    ]


def test_agent_stops_at_its_budget(scripted_cell: ClientCell, tmp_path: Path) -> None:
    scripted_cell.forget()
    options = ("--model", KIMI, "--budget", "0.000001")
    shown = _example(scripted_cell, tmp_path, "coding_agent.py", str(tmp_path), "Go on.", *options)
    assert "Stopped: the next turn may cost more" in shown
    assert scripted_cell.requests() == []


def test_scanner_finds_what_is_there_and_pays_only_for_what_changed(
    scripted_cell: ClientCell, tmp_path: Path
) -> None:
    folder = _repository(tmp_path)
    (folder / "planted.py").write_text(PLANTED)
    scripted_cell.forget()
    first = _scan(scripted_cell, folder)
    names = sorted(path.name for path in folder.glob("*.py"))
    assert _scanned(scripted_cell) == Counter(names)
    assert re.search(r"planted.py:3 .* high .* The gate is never closed\.", first)
    assert _figure(first, "files scanned") == str(len(names))
    assert Decimal(_figure(first, "saved by caching").lstrip("$")) > 0

    scripted_cell.forget()
    assert _scan(scripted_cell, folder) == first
    assert _scanned(scripted_cell) == Counter()

    (folder / "planted.py").write_text("GATE = None\n")
    changed = _scan(scripted_cell, folder)
    assert _scanned(scripted_cell) == Counter(["planted.py"])
    assert "Nothing was found." in changed
    assert _figure(changed, "files scanned") == str(len(names) + 1)


def test_scanner_that_was_stopped_goes_on_without_scanning_anything_twice(
    scripted_cell: ClientCell, tmp_path: Path
) -> None:
    folder = _repository(tmp_path)
    (folder / "slow.py").write_text(SLOW)
    scripted_cell.forget()
    newest = _newest_job(scripted_cell)
    # A run that was put into the background has Ctrl-C ignored, and hands that on.
    command = ["env", "--default-signal=INT", sys.executable, str(EXAMPLES / "codebase_scanner.py")]
    command += [str(folder), "--model", KIMI]
    scanning = subprocess.Popen(command, env=_environment(scripted_cell), stdout=subprocess.DEVNULL)
    try:
        until(lambda: _newest_job(scripted_cell) != newest, RUN_SECONDS)
        scanning.send_signal(signal.SIGINT)
        assert scanning.wait(RUN_SECONDS) == 130
    finally:
        scanning.kill()
        scanning.wait()

    shown = _scan(scripted_cell, folder)
    names = [path.name for path in folder.glob("*.py")]
    assert _scanned(scripted_cell) == Counter(names)
    assert _figure(shown, "files scanned") == str(len(names))


def test_cost_report_is_what_the_usage_api_says(scripted_cell: ClientCell, tmp_path: Path) -> None:
    for model in (KIMI, LLAMA):
        for _ in range(2):
            _chat(scripted_cell, model, "report-test")
    path = "/v1/usage?group_by=model&workflow=report-test"
    rows = until(lambda: _settled(scripted_cell.get(path)["rows"]), 20.0)
    options = ("--by", "model", "--by", "workflow", "--csv", "costs.csv")
    shown = _example(scripted_cell, tmp_path, "cost_report.py", *options)
    assert re.search(r"By model: \$\d+\.\d+ spent, \$\d+\.\d+ saved by caching", shown)
    with (tmp_path / "costs.csv").open() as file:
        written = {(row["by"], row["value"]): row for row in csv.DictReader(file)}
    ours = written["workflow", "report-test"]
    assert Decimal(ours["cost_usd"]) == sum(Decimal(row["cost_usd"]) for row in rows)
    assert Decimal(ours["saved_usd"]) == sum(Decimal(row["saved_usd"]) for row in rows) > 0
    assert int(ours["requests"]) == 4
    assert float(ours["hit_ratio"]) > 0
    line = next(line for line in shown.splitlines() if "report-test" in line)
    assert f"${Decimal(ours['cost_usd']):.6f}" in line
    assert {("model", KIMI), ("model", LLAMA)} <= written.keys()


def _example(cell: ClientCell, folder: Path, program: str, *arguments: str) -> str:
    return _run([sys.executable, str(EXAMPLES / program), *arguments], cell, folder)


def _run(command: list[str], cell: ClientCell, folder: Path) -> str:
    """What it prints, if all goes well."""
    done = subprocess.run(
        command,
        env=_environment(cell),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def _environment(cell: ClientCell) -> dict[str, str]:
    ours = {"URL": cell.url, "KEY": cell.key, "ACCOUNT": cell.account}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": "160", **ours}


def _repository(tmp_path: Path) -> Path:
    """Real files of ours, made this test's own: the same content would be an earlier one's job."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for path in sorted((ROOT / "src" / "penstock" / "wire").glob("*.py"))[:10]:
        (folder / path.name).write_text(f"{path.read_text()}# {tmp_path.name}\n")
    return folder


def _scan(cell: ClientCell, folder: Path) -> str:
    shown = _example(cell, folder, "codebase_scanner.py", str(folder), "--model", KIMI)
    # How long it took stands in the bar.
    return re.sub(r"scanning.*\n", "", shown)


def _scanned(cell: ClientCell) -> Counter[str]:
    """How often each file reached an engine."""
    asked = (request["body"]["messages"][-1]["content"] for request in cell.requests())
    return Counter(words.partition("\n")[0] for words in asked)


def _figure(shown: str, name: str) -> str:
    found = re.search(rf"{name} +│ +(\S+)", shown)
    assert found is not None, shown
    return found.group(1)


def _newest_job(cell: ClientCell) -> str | None:
    jobs = cell.get("/v1/jobs?limit=1")["data"]
    return jobs[0]["id"] if jobs else None


def _chat(cell: ClientCell, model: str, workflow: str) -> None:
    words = "What does a report say of the water that turned no turbine at all this year? " * 3
    answer = httpx.post(
        f"{cell.url}/v1/chat/completions",
        headers={"authorization": f"Bearer {cell.key}", "x-penstock-workflow": workflow},
        json={"model": model, "messages": [{"role": "user", "content": words}]},
    )
    assert answer.status_code == 200, answer.text


def _settled(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The rows, once the ledger has all four requests."""
    return rows if sum(row["requests"] for row in rows) == 4 else None
