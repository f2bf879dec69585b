"""`penstock deploy` over the operator's API, with no database in reach."""

from pathlib import Path

import psycopg
import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.control_process import ControlProcess
from tests.integration.cells.gateway_process import eventually

FILE = """
[deployment.kimi]
model = "kimi-k2.5"
replicas = { min = 2, max = 2 }
hosts = { labels = { gpu = "h200" } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cell.toml"
    path.write_text(FILE)
    return path


def test_deployments_are_planned_applied_and_rolled_back(remote: Penstock, file: Path) -> None:
    planned = remote("deploy", "plan", str(file)).stdout
    assert planned == "kimi is created\n  without a place: no host is ready for deployments\n"
    applied = remote("deploy", "apply", str(file), "--why", "first")
    assert applied.stdout == "kimi: revision 1\n"
    assert remote("deploy", "apply", str(file)).stdout == "kimi: unchanged\n"
    file.write_text(FILE + 'arguments = ["--max-num-seqs", "64"]\n')
    [change] = read(remote("deploy", "plan", str(file), "--json"))
    assert (change["kind"], change["differs"]) == (
        "change",
        {"arguments": ["[]", '["--max-num-seqs","64"]']},
    )
    read(remote("deploy", "apply", str(file), "--json"))
    back = read(remote("deploy", "rollback", "kimi", "--json"))
    assert (back["revision"], back["launch"]) == (3, 1)
    history = read(remote("deploy", "history", "kimi", "--json"))
    assert [each["why"] for each in history] == ["back to revision 1", "", "first"]
    assert all(each["made_by"] for each in history)
    assert "back to revision 1" in remote("deploy", "history", "kimi").stdout
    scaled = read(remote("deploy", "scale", "kimi", "1", "--max", "4", "--json"))
    assert (scaled["target"], scaled["spec"]["replicas"]) == (2, {"min": 1, "max": 4})
    assert read(remote("deploy", "pause", "kimi", "--json"))["is_paused"]
    assert not read(remote("deploy", "resume", "kimi", "--json"))["is_paused"]
    eventually(lambda: "no host is ready" in remote("deploy", "status").stdout)
    assert read(remote("deploy", "remove", "kimi", "--json"))["is_removed"]
    eventually(lambda: read(remote("deploy", "status", "--json")) == [])
    assert remote("deploy", "pause", "kimi").exit_code == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[deployment.x\n", "not valid TOML"),
        ("[deploy.x]\n", "has `deploy`: write tables [deployment.NAME]"),
        ("", "has nothing"),
        ('[deployment.X]\nmodel = "kimi-k2.5"\n', "matching regex"),
        ('[deployment.x]\nmodel = "kimi-k2.5"\ncolour = "red"\n', "unknown field `colour`"),
        ('[deployment.x]\nmodel = "kimi-k2.5"\nreplicas = { min = 3, max = 1 }\n', "greater than"),
        ('[deployment.x]\nmodel = "no-such-model"\n', "no-such-model"),
        ('[deployment.x]\nmodel = "kimi-k2.5"\naccounts = ["nobody"]\n', "no account nobody"),
    ],
)
def test_a_fault_in_the_file_is_one_line(
    remote: Penstock, file: Path, text: str, said: str
) -> None:
    file.write_text(text)
    done = remote("deploy", "apply", str(file))
    assert done.exit_code in (2, 4)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_is_applied_whole_or_not_at_all(
    remote: Penstock, file: Path, control: ControlProcess, dsn: str
) -> None:
    with control.client() as client:
        spec = {"model": "kimi-k2.5"}
        both = {"deployments": {"a": spec, "b": spec}}
        assert client.post("/deployments", json=both).status_code == 200
        changed = {"model": "kimi-k2.5", "spread": "none"}
        later = {"deployments": {"a": changed, "b": changed}, "base": {"a": 1, "b": 7}}
        lost = client.post("/deployments", json=later)
        assert (lost.status_code, lost.json()["error"]["code"]) == (409, "conflict")
        assert "has revision 1 by now, and you saw 7" in lost.json()["error"]["message"]
        shown = client.get("/deployments").json()["deployments"]
        assert [each["revision"] for each in shown] == [1, 1]
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select made_by from deployment_revisions").fetchall()
    assert len({row[0] for row in rows}) == 1
