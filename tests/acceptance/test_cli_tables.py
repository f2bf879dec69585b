"""Lists in a terminal of 80 columns, with the ids of a real cell: nothing is broken over lines."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.acceptance.cli_run import PENSTOCK, Up, run_json, until
from tests.acceptance.terminal_picture import Terminal

from penstock.console.formats import last_part

COLUMNS = 80
END_SECONDS = 30.0
# Of these a picture is kept with the test's files, to look at.
DRAWN = {"jobs", "doctor"}


class Cell(NamedTuple):
    """A running `penstock up` with a job, a batch of work, keys, limits and usage."""

    state: Path
    ready: dict[str, Any]
    job: str
    other_account: str


@pytest.fixture(scope="module")
def cell() -> Iterator[Cell]:
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        # Not pytest's folder: a path is never broken over lines, and that one can be too long.
        yield from _cell(Path(folder) / "state")


def _cell(state: Path) -> Iterator[Cell]:
    up = Up(state, "--imitate", "--json")
    try:
        ready = up.ready()
        other = run_json(state, "account", "create", "research")["id"]
        run_json(state, "key", "create", "--account", other, "--name", "ci")
        run_json(state, "limit", "set", "--account", other, "--usd-per-month", "250")
        run_json(state, "limit", "set", "--account", other, "--session", "*",
                 "--tokens-per-day", "1000000")  # fmt: skip
        yield Cell(state, ready, _work(ready, state), other)
    finally:
        up.close()


def _work(ready: dict[str, Any], state: Path) -> str:
    """One request and one job, both ended and booked; the job's id."""
    body = {"model": ready["model"], "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer {ready['key']}", "x-session-affinity": "agent-7"}
    url = f"{ready['base_url']}/v1/chat/completions"
    assert httpx.post(url, headers=headers, json=body).status_code == 200
    queued = httpx.post(url, headers={**headers, "prefer": "respond-async"}, json=body)
    assert queued.status_code == 202
    job: str = queued.json()["id"]

    def is_booked() -> bool:
        time.sleep(0.5)
        rows = run_json(state, "usage")["rows"]
        return int(sum(row["requests"] for row in rows)) == 2

    until(is_booked, END_SECONDS)
    return job


def _screen(cell: Cell, folder: Path, *arguments: str) -> list[str]:
    """The command's screen, which has no line that is wrapped or cut."""
    command = [*PENSTOCK, *arguments, "--state", str(cell.state)]
    with Terminal(folder, command, columns=COLUMNS, rows=60) as terminal:
        assert terminal.wait_for_end(END_SECONDS) == 0
        terminal.check_layout()
        if arguments[0] in DRAWN:
            picture = terminal.picture(folder / f"{arguments[0]}.png")
            assert picture.stat().st_size > 1000
        return terminal.lines


def _is_whole(id: str, screen: list[str]) -> bool:
    return any(id in line.split() for line in screen)


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "list"),
        ("key", "list"),
        ("limit", "list"),
        ("jobs", "list"),
        ("usage", "--group-by", "key"),
        ("usage", "--group-by", "account,model", "--by", "hour"),
        ("status",),
        ("flex", "show"),
        ("logs",),
    ],
    ids=" ".join,
)
def test_list_fits_with_whole_ids(cell: Cell, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    screen = _screen(cell, tmp_path, *arguments)
    wanted = _ids(cell, arguments)
    assert wanted
    for id in wanted:
        assert _is_whole(id, screen), (id, screen)


def _ids(cell: Cell, arguments: tuple[str, ...]) -> list[str]:
    """Ids and names that the list must show whole."""
    if arguments[0] in {"account", "key"}:
        return [each["id"] for each in run_json(cell.state, *arguments)]
    if arguments[0] == "limit":
        return ["250.00", "1000000"]
    if arguments[0] == "jobs":
        return [cell.job, last_part(cell.ready["model"])]
    if arguments[0] == "usage":
        rows = run_json(cell.state, *arguments)["rows"]
        labels = [label for row in rows for label in row["labels"].values()]
        return ["local" if label == cell.ready["account"] else last_part(label) for label in labels]
    if arguments[0] == "flex":
        return [last_part(cell.ready["model"])]
    replicas = run_json(cell.state, "status")["replicas"]
    return [each["id"] for each in replicas]


def test_models_say_what_runs_with_whole_ids(cell: Cell, tmp_path: Path) -> None:
    screen = _screen(cell, tmp_path, "models", "list")
    assert screen[1].split()[:3] == [cell.ready["model"], "2", "ready"]
    assert _is_whole("@local/huggingfacetb/smollm2-135m-instruct", screen)
    listed = {each["id"]: each["replicas"] for each in run_json(cell.state, "models", "list")}
    assert listed.pop(cell.ready["model"]) == {"ready": 2}
    assert all(not replicas for replicas in listed.values())
    assert run_json(cell.state, "models", "show", "default")["id"] == cell.ready["model"]


def test_doctor_is_no_wider_than_the_terminal(cell: Cell, tmp_path: Path) -> None:
    screen = _screen(cell, tmp_path, "doctor")
    assert any(line.startswith("ok    postgres: ") for line in screen)
