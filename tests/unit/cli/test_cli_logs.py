"""The logs that `penstock logs` knows: of our processes, and of replicas that run."""

from pathlib import Path

from penstock.cli.up.logs import find_logs
from penstock.cli.up.state import UpState


def test_logs_are_found_by_process_and_by_replica(tmp_path: Path) -> None:
    files = (
        "logs/gateway.log", "logs/keeper.log", "postgres/postgres.log",
        "fleet/replicas/r-1/engine.log", "fleet/ended/r-0/engine.log", "logs/other.txt",
    )  # fmt: skip
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    found = find_logs(UpState(tmp_path))
    assert list(found) == ["gateway", "keeper", "postgres", "r-1"]
    assert found["r-1"] == tmp_path / "fleet/replicas/r-1/engine.log"


def test_a_folder_without_a_run_has_no_logs(tmp_path: Path) -> None:
    assert find_logs(UpState(tmp_path / "nothing")) == {}
