"""`penstock top`: what each tab shows of the last hour, and its screen that renews itself."""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fcntl import ioctl
from pathlib import Path

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.incident_rows import (
    REPLICAS,
    WORKFLOWS,
    Incident,
    make_incident,
    make_last_hour,
)
from tests.integration.cells.usage_rows import attempt, new_account, write

from penstock.clock import SystemClock, new_id
from penstock.config import environment_for
from penstock.fleet.roster import RosterTable
from penstock.fleet.workers import Worker, WorkerTable
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store

SEED = 20261119
MODEL = ModelId("@cf/moonshotai/kimi-k2.5")
_ROWS, _COLUMNS = 40, 200
_ALTERNATE, _USUAL = "\x1b[?1049h", "\x1b[?1049l"
_TYPED = termios.ECHO | termios.ICANON


async def enroll(store: Store) -> None:
    for id, state in zip(REPLICAS, (ReplicaState.READY, ReplicaState.DRAINING) * 2, strict=True):
        replica = Replica(
            id=ReplicaId(id), model=MODEL, url="http://127.0.0.1:9", served_name="m",
            dialect="vllm", state=state, slots_live=8, generation=1, host="gpu-host-1",
        )  # fmt: skip
        await RosterTable(store).enroll(replica, keeper="keeper-1")
    for kind in ("gateway", "gateway", "keeper"):
        await WorkerTable(store).beat(Worker(new_id(), kind, "host-1", "1.2.3"))


@pytest.fixture
async def last_hour(store: Store) -> Incident:
    """Four replicas, each of which served a session of each workflow in the last hour."""
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    incident = await make_incident(store, SEED, now)
    await make_last_hour(store, incident, SEED, now)
    await enroll(store)
    return incident


def lines(penstock: Penstock, tab: str) -> list[list[str]]:
    """The words of each line of a tab."""
    shown = penstock("top", "--once", "--tab", tab)
    assert shown.exit_code == 0, shown.output
    return [line.split() for line in shown.stdout.splitlines()]


def test_each_tab_shows_the_last_hour(penstock: Penstock, last_hour: Incident) -> None:
    fleet = lines(penstock, "fleet")
    assert " ".join(fleet[0]) == "kimi-k2.5: 2 draining, 2 ready, 0 running, 0 waiting"
    table = [words for words in fleet if words and words[0] in REPLICAS]
    assert [words[:3] for words in table] == [
        [id, state, "kimi-k2.5"]
        for id, state in zip(REPLICAS, ("ready", "draining") * 2, strict=True)
    ]
    assert " ".join(fleet[-1]) == "processes: 2 gateway, 1 keeper; version 1.2.3"

    head, *rows = lines(penstock, "workflows")
    assert head[:4] == ["workflow", "turns", "stayed", "breaks"]
    breaks = {words[0]: int(words[3]) for words in rows}
    assert set(breaks) == set(WORKFLOWS)
    assert [workflow for workflow in breaks if breaks[workflow]] == [last_hour.workflow]

    head, *rows = lines(penstock, "sessions")
    assert head[:2] == ["session", "turns"]
    turns = {words[0]: words[1] for words in rows}
    for replica in REPLICAS:
        for workflow in WORKFLOWS:
            assert turns[f"{workflow}-now-{replica}"] == "12"

    head, *rows = lines(penstock, "requests")
    assert head[:3] == ["asked", "request", "why"]
    assert len(rows) == 100, "the latest hundred"
    asked = [" ".join(words[:2]) for words in rows]
    assert asked == sorted(asked, reverse=True)
    # Behind them come those of the hour before.
    assert all("-now-" in " ".join(words) for words in rows[:50])


def test_a_script_reads_all_tabs_at_once(penstock: Penstock, last_hour: Incident) -> None:
    found = read(penstock("top", "--once", "--json"))
    assert set(found) == {"replicas", "workers", "stability", "sessions", "requests"}
    assert [row["id"] for row in found["replicas"]["replicas"]] == list(REPLICAS)
    used = {id: each["requests"] for id, each in found["replicas"]["use"].items()}
    assert set(used) == set(REPLICAS)
    kinds = [seen["worker"]["kind"] for seen in found["workers"]["workers"]]
    assert kinds == ["gateway", "gateway", "keeper"]
    stability = {row["workflow"]: row for row in found["stability"]["stability"]["rows"]}
    assert set(stability) == set(WORKFLOWS)
    assert stability[last_hour.workflow]["cache_breaks"] > 0
    sessions = {row["session"] for row in found["sessions"]["sessions"]["sessions"]}
    assert {f"{last_hour.workflow}-now-{id}" for id in REPLICAS} <= sessions
    requests = found["requests"]["requests"]["requests"]
    assert {row["replica"] for row in requests} == set(REPLICAS)
    assert all("-now-" in row["session"] for row in requests[:50])


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read until a text appears that was not there before."""
        begun = len(self.shown)
        deadline = time.monotonic() + 45
        while text not in self.shown[begun:]:
            assert time.monotonic() < deadline, self.shown[begun:][-2000:]
            self._read(0.1)

    def press(self, key: str) -> None:
        os.write(self._terminal, key.encode())

    def end(self) -> int:
        """Return the exit code, once all that was printed is read."""
        deadline = time.monotonic() + 10
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the command did not end"
            self._read(0.05)
        self._read(0.05)
        return self.process.returncode

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it does for a shell."""
        flags: int = termios.tcgetattr(self._terminal)[3]
        return flags & _TYPED == _TYPED

    def _read(self, seconds: float) -> None:
        while select.select([self._terminal], [], [], seconds)[0]:
            self.shown += os.read(self._terminal, 65536).decode(errors="replace")
            seconds = 0


@contextmanager
def top(dsn: str, folder: Path, *options: str) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "top", "--seconds", "0.5", *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**environment_for({"store.dsn": dsn}), "TERM": "xterm-256color"},
        # So that its terminal is the one that a typed Ctrl-C goes to.
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0) and None,  # noqa: PLW1509 - no threads
    )
    try:
        yield Screen(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


async def test_the_screen_renews_itself_and_q_ends_it(
    store: Store, dsn: str, tmp_path: Path, full: bool
) -> None:
    if not full:
        pytest.skip("misses renewals beside other tests: `make nightly`, or --full")
    account = new_account()

    async def serve(session: str) -> None:
        await write(store, [attempt(account, asked_at=SystemClock().now(), session=session)])

    await serve("at-first")
    with top(dsn, tmp_path, "--tab", "requests") as screen:
        screen.wait_for("at-first")
        assert _ALTERNATE in screen.shown
        assert not screen.echoes()
        for session in ("renewed-once", "renewed-twice"):
            await serve(session)
            screen.wait_for(session)
        screen.press("3")
        screen.wait_for("slope")
        screen.press("1")
        screen.wait_for("no replicas")
        screen.press("q")
        assert screen.end() == 0
        assert screen.echoes()
    assert screen.shown.rindex(_USUAL) > screen.shown.rindex(_ALTERNATE)
    assert "Traceback" not in screen.shown


async def test_ctrl_c_ends_it_without_a_traceback(store: Store, dsn: str, tmp_path: Path) -> None:
    await enroll(store)
    with top(dsn, tmp_path) as screen:
        screen.wait_for("kimi-k2.5")
        screen.press("\x03")
        code = screen.end()
        assert screen.echoes()
    assert code == 128 + signal.SIGINT
    assert _USUAL in screen.shown
    assert "Traceback" not in screen.shown
