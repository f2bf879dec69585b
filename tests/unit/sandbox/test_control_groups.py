"""Control groups, on folders that stand for those of the Linux kernel."""

import signal
import subprocess
import threading
from pathlib import Path

import pytest

from penstock.sandbox import control_groups
from penstock.sandbox.control_groups import BoxLimits, ControlGroup, ControlGroups

LIMITS = BoxLimits(memory_bytes=128 * 2**20, processes_max=40, cpus=0.5)
VERSION_1 = ("memory", "pids", "cpu")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A tree of version 1."""
    for name in VERSION_1:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    return tmp_path


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A tree of version 2."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def _contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def _empty(*folders: Path) -> None:
    """Files of a group vanish with it in the kernel, and stay in a made-up tree."""
    for folder in folders:
        for path in folder.iterdir():
            path.unlink()


def test_version_2_has_one_group_with_all_limits(second: Path) -> None:
    groups = ControlGroups(second)
    assert groups.problem() == ""
    group = groups.make("c-1", LIMITS)
    folder = second / "penstock-sandbox" / "c-1"
    assert _contents(folder) == {
        "memory.max": "134217728",
        "pids.max": "40",
        "cpu.max": "50000 100000",
    }
    for parent in (second, second / "penstock-sandbox"):
        assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert group.entries == [folder / "cgroup.procs"]
    _empty(folder)
    assert group.end()
    assert not folder.exists()


def test_version_1_has_a_group_for_each_controller(first: Path) -> None:
    groups = ControlGroups(first)
    assert groups.problem() == ""
    group = groups.make("c-1", LIMITS)
    memory, pids, cpu = (first / name / "penstock-sandbox" / "c-1" for name in VERSION_1)
    assert _contents(memory) == {"memory.limit_in_bytes": "134217728"}
    assert _contents(pids) == {"pids.max": "40"}
    assert _contents(cpu) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
    assert group.entries == [folder / "cgroup.procs" for folder in (memory, pids, cpu)]


def test_swap_is_none_where_the_kernel_counts_it(tmp_path: Path) -> None:
    (tmp_path / "memory.swap.max").touch()
    ControlGroup([tmp_path], is_unified=True).limit(LIMITS)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    (tmp_path / "memory.memsw.limit_in_bytes").touch()
    ControlGroup([tmp_path] * 3, is_unified=False).limit(LIMITS)
    assert (tmp_path / "memory.memsw.limit_in_bytes").read_text() == "134217728"


def test_a_missing_controller_is_a_problem(tmp_path: Path) -> None:
    assert "memory, pids, cpu" in ControlGroups(tmp_path).problem()
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert "no control groups for pids" in ControlGroups(tmp_path).problem()


def test_a_tree_that_cannot_be_written_is_a_problem(second: Path) -> None:
    (second / "penstock-sandbox").touch()
    assert "cannot be made" in ControlGroups(second).problem()


def test_a_name_in_use_is_refused_and_leaves_nothing(first: Path) -> None:
    groups = ControlGroups(first)
    groups.make("c-1", LIMITS)
    with pytest.raises(FileExistsError):
        groups.make("c-1", LIMITS)
    (first / "cpu" / "penstock-sandbox" / "c-2").mkdir()
    with pytest.raises(FileExistsError):
        groups.make("c-2", LIMITS)
    assert not (first / "memory" / "penstock-sandbox" / "c-2").exists()


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b"])
def test_a_name_is_no_path(second: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        ControlGroups(second).make(name, LIMITS)


def test_clear_kills_and_removes_what_is_left(first: Path) -> None:
    groups = ControlGroups(first)
    groups.clear()
    groups.make("c-1", LIMITS)
    left = [first / name / "penstock-sandbox" / "c-1" for name in VERSION_1]
    _empty(*left)
    entry = left[1] / "cgroup.procs"
    with subprocess.Popen(["sleep", "60"]) as process:
        entry.write_text(f"{process.pid}\n")

        def forget() -> None:
            process.wait()
            entry.unlink()

        # The kernel of a real tree does this.
        kernel = threading.Thread(target=forget)
        kernel.start()
        groups.clear()
        kernel.join()
        assert process.returncode == -signal.SIGKILL
    assert [folder for folder in left if folder.exists()] == []


def test_a_group_that_does_not_end_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "_KILL_TRIES", 2)
    (tmp_path / "kept").touch()
    assert not ControlGroup([tmp_path], is_unified=True).end()
