"""`penstock contracts`, over the operator's API, with no database in reach."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.control_process import ControlProcess
from tests.integration.contracts.contract_cell import contract

from penstock.contracts.document import SCHEMA
from penstock.fleet.workers import Worker, WorkerTable
from penstock.store import Store, StoreSettings

_OLDER: Final = "00000000-0000-7000-8000-000000000001"


@pytest.fixture
def folder(tmp_path: Path, remote: Penstock) -> Path:
    """The shipped contracts with their cases, as the docs have them copied."""
    made = tmp_path / "contracts"
    (made / "cases").mkdir(parents=True)
    for name in remote("contracts", "example").stdout.split():
        (made / f"{name}.toml").write_text(remote("contracts", "example", name).stdout)
        cases = remote("contracts", "example", name, "--cases").stdout
        (made / "cases" / f"{name}.toml").write_text(cases)
    return made


def test_examples_pass_check_and_their_cases(remote: Penstock, folder: Path) -> None:
    assert "coding-agent: right" in remote("contracts", "check", str(folder)).stdout
    tested = remote("contracts", "test", str(folder))
    assert (tested.exit_code, tested.stdout) == (0, "48 of 48 cases as expected\n")
    assert remote("contracts", "example", "nothing-such").exit_code == 4


def test_a_case_that_differs_says_how(remote: Penstock, folder: Path) -> None:
    case = """
[[case]]
name = "wrong"
workflow = "coding-agent"
body = { messages = [{ role = "user", content = "Hello" }] }
expect = { model = "gpt-oss-120b" }
"""
    for old in (folder / "cases").iterdir():
        old.unlink()
    (folder / "cases" / "mine.toml").write_text(case)
    tested = remote("contracts", "test", str(folder))
    assert tested.exit_code == 1
    assert "wrong: model is @cf/moonshotai/kimi-k2.5, not @cf/openai/gpt-oss-120b" in tested.stdout
    (folder / "cases" / "mine.toml").write_text("[[case]]\nname = 1")
    assert remote("contracts", "test", str(folder)).exit_code == 2


def test_apply_diff_list_show_and_go_back(remote: Penstock, folder: Path) -> None:
    assert "coding-agent added" in remote("contracts", "diff", str(folder)).stdout
    first = read(remote("contracts", "apply", str(folder), "--message", "first", "--json"))
    assert (first["number"], first["changed"]) == (1, ["coding-agent", "default", "extraction"])
    assert "nothing would change" in remote("contracts", "diff", str(folder)).stdout

    text = (folder / "coding-agent.toml").read_text()
    (folder / "coding-agent.toml").write_text(text.replace("16_384", "8_192"))
    changes = remote("contracts", "diff", str(folder)).stdout
    assert "output.tokens_max: 16384 -> 8192  stricter" in changes
    applied = remote("contracts", "apply", str(folder), "--wait")
    assert "coding-agent@2" in applied.stdout
    assert "default@1, unchanged" in applied.stdout
    assert remote("contracts", "show", "coding-agent@1").stdout == text
    assert "8_192" in remote("contracts", "show", "coding-agent").stdout
    assert remote("contracts", "show", "coding-agent@9").exit_code == 4
    assert remote("contracts", "show", "coding-agent@x").exit_code == 2

    back = read(remote("contracts", "apply", "--set", "1", "--json"))
    assert back["number"] == 3
    listed = remote("contracts", "list").stdout
    assert "coding-agent@3" in listed
    assert "3 *" in listed
    sets = read(remote("contracts", "list", "--json"))["sets"]["sets"]
    assert [(each["number"], each["from_set"]) for each in sets] == [(3, 1), (2, None), (1, None)]
    assert sets[0]["actor"]

    assert "no contract is in force" in remote("contracts", "apply", "--set", "0").stdout
    assert "no contract is in force" in remote("contracts", "list").stdout
    assert remote("contracts", "apply", "--set", "99").exit_code == 4
    assert remote("contracts", "apply").exit_code == 2


def test_what_is_wrong_is_refused_here_and_by_control(
    remote: Penstock, folder: Path, control: ControlProcess
) -> None:
    (folder / "bad.toml").write_text(contract("bad", "output = { token_max = 5 }"))
    refused = remote("contracts", "apply", str(folder))
    assert refused.exit_code == 2
    assert "Write tokens_max = 4096" in refused.stderr
    with control.client() as client:
        answer = client.post("/contract-sets", json={"documents": ["schema = 2"]})
    assert (answer.status_code, "schema = 1" in answer.text) == (400, True)
    assert remote("contracts", "check", str(folder / "nowhere")).exit_code == 2


def test_an_older_process_would_serve_without_contracts(
    remote: Penstock, folder: Path, dsn: str
) -> None:
    _report(dsn, Worker(_OLDER, "keeper", "h2", "0.1.0", {"pid": 7}))
    refused = remote("contracts", "apply", str(folder))
    assert (refused.exit_code, "keeper on h2 is of release 0.1.0" in refused.stderr) == (1, True)
    assert remote("contracts", "apply", str(folder), "--force").exit_code == 0
    assert remote("contracts", "apply", "--set", "1").exit_code == 1
    assert remote("contracts", "apply", "--set", "1", "--force").exit_code == 0
    # To let none be in force is never too early.
    assert remote("contracts", "apply", "--set", "0").exit_code == 0
    _report(dsn, Worker(_OLDER, "keeper", "h2", "0.2.0", {"pid": 8, "contract_schema": SCHEMA}))
    assert remote("contracts", "apply", str(folder)).exit_code == 0


def _report(dsn: str, worker: Worker) -> None:
    async def report() -> None:
        store = Store(StoreSettings(dsn=dsn))
        await store.open()
        try:
            await WorkerTable(store).beat(worker)
        finally:
            await store.close()

    asyncio.run(report())


def test_alerts_are_rules_for_prometheus(remote: Penstock, folder: Path) -> None:
    rules = read(remote("contracts", "alerts", str(folder)))
    groups = {group["name"]: group["rules"] for group in rules["groups"]}
    assert groups.keys() == {"penstock-contract-coding-agent", "penstock-contract-extraction"}
    assert len(groups["penstock-contract-coding-agent"]) == 12
    for name in ("coding-agent", "extraction"):
        (folder / f"{name}.toml").unlink()
    assert remote("contracts", "alerts", str(folder)).exit_code == 2
