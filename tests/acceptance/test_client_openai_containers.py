"""The openai Python SDK on containers: a base URL and a key change."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.client_cell import KIMI, ClientCell, running_cell
from tests.acceptance.client_run import run_python
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, sandbox_settings

from penstock.config import toml


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCell]:
    """A cell with a sandbox host that runs no code."""
    folder = tmp_path_factory.mktemp("containers")
    with ImitatedSandbox() as host:
        settings = sandbox_settings(folder, host)
        lines = [f"{name.partition('.')[2]} = {toml(value)}" for name, value in settings.items()]
        (folder / "penstock.toml").write_text("\n".join(["[tools]", *lines, ""]))
        with running_cell(folder, {KIMI: 256_000}) as running:
            yield running


def run(cell: ClientCell, case: str) -> Any:
    return run_python("openai_containers.py", cell, case=case)


def test_containers_are_made_listed_shown_and_deleted(cell: ClientCell) -> None:
    told = run(cell, "containers")
    first, second = told["made"]
    assert first["id"].startswith("cntr_")
    assert first["object"] == "container"
    assert first["status"] == "running"
    assert [each["expires_after"]["minutes"] for each in told["made"]] == [5, 10]
    assert first["network_policy"] == {"type": "disabled"}
    assert {"driver", "isolation"} <= first.keys()
    assert told["listed"] == [first["id"], second["id"]]
    assert told["is_shown"]
    assert told["gone"] == ["NotFoundError", "not_found", "container_id"]
    assert told["left"] == [second["id"]]


def test_files_go_in_and_out(cell: ClientCell) -> None:
    told = run(cell, "files")
    one, two = told["files"]
    assert one["id"].startswith("cfile_")
    assert (one["path"], one["bytes"], one["source"]) == ("/mnt/data/data.csv", 8, "user")
    assert one["container_id"] == told["container"]
    assert two["path"] == "/mnt/data/lines.jsonl"
    assert told["listed"] == [one["id"], two["id"]]
    assert told["is_shown"]
    assert told["texts"] == ["a,b\n1,2\n", '{"custom_id": "1"}\n']
    assert told["gone"] == ["NotFoundError", "not_found", "file_id"]
    assert cell.count_rows("container_files") == 0


def test_what_is_not_served_is_refused_by_name(cell: ClientCell) -> None:
    assert run(cell, "refused") == [
        ["BadRequestError", "invalid_request", param]
        for param in ("network_policy", "skills", "memory_limit")
    ]
