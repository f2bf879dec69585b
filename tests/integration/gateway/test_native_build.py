"""The build of compiled modules, on a package of two: what it leaves, and what it never leaves."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from deploy.native.build import ROOT

BUILD = ROOT / "deploy" / "native" / "build.py"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "checkout" / "src" / "penstock"
    listed = tmp_path / "checkout" / "deploy" / "native"
    for folder in (package, listed):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "plain.py").write_text("ONE: int = 1\n")
    (package / "apart.py").write_text("from penstock.hot import add\n\nTWO = add(1)\n")
    (package / "hot.py").write_text(
        "from penstock.plain import ONE\n\n\ndef add(x: int) -> int:\n    return x + ONE\n"
    )
    (listed / "modules.txt").write_text("# What is hot.\nhot.py\n")
    (tmp_path / "checkout" / "pyproject.toml").write_text("[tool.mypy]\nstrict = true\n")
    return tmp_path / "checkout"


def build(checkout: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BUILD), "--root", str(checkout), "--cache", str(cache)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def said(folder: Path, asked: str) -> list[str]:
    """What a program prints that finds the package in this folder."""
    return subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.glob("native-*"))


@pytest.mark.timeout(180)
def test_compiled_once_and_again_when_something_changes(checkout: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = build(checkout, cache)
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.strip())
    assert folder.parent == cache
    assert (folder / "penstock" / f"hot{SUFFIX}").exists()
    assert not list(folder.rglob("*.c"))
    asked = "import penstock.hot as hot, penstock.plain as plain\n"
    asked += "print(hot.add(2), hot.__file__, plain.__file__)"
    assert said(folder, asked) == [
        "3", str(folder / "penstock" / f"hot{SUFFIX}"), str(folder / "penstock" / "plain.py"),
    ]  # fmt: skip

    again = build(checkout, cache)
    assert (again.stdout, "compiling" in again.stderr) == (first.stdout, False)

    (checkout / "src" / "penstock" / "plain.py").write_text("ONE: int = 2\n")
    changed = build(checkout, cache)
    assert changed.returncode == 0, changed.stderr
    assert changed.stdout != first.stdout
    assert len(folders(cache)) == 2


@pytest.mark.timeout(180)
def test_what_the_compiler_does_not_read_is_copied_beside_what_is_compiled(
    checkout: Path, tmp_path: Path
) -> None:
    cache, apart = tmp_path / "cache", checkout / "src" / "penstock" / "apart.py"
    asked = "import penstock.hot as hot, penstock.apart as apart\nprint(apart.TWO, hot.__file__)"
    first = Path(build(checkout, cache).stdout.strip())
    apart.write_text(apart.read_text().replace("add(1)", "add(4)"))
    (apart.parent / "new.txt").write_text("new")
    again = build(checkout, cache)
    second = Path(again.stdout.strip())
    assert (again.returncode, "compiling" in again.stderr) == (0, False)
    assert second != first
    assert said(first, asked) == ["2", str(first / "penstock" / f"hot{SUFFIX}")]
    assert said(second, asked) == ["5", str(second / "penstock" / f"hot{SUFFIX}")]
    assert (second / "penstock" / "new.txt").exists()
    assert not (first / "penstock" / "new.txt").exists()


@pytest.mark.timeout(120)
def test_what_does_not_compile_leaves_no_folder(checkout: Path, tmp_path: Path) -> None:
    (checkout / "src" / "penstock" / "hot.py").write_text(
        "def add(x: int) -> int:\n    return ''\n"
    )
    failed = build(checkout, tmp_path / "cache")
    assert failed.returncode == 1
    assert "Incompatible return value type" in failed.stderr
    assert folders(tmp_path / "cache") == []


@pytest.mark.timeout(180)
def test_the_three_that_were_asked_for_last_are_kept(checkout: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name in ("native-1", "native-2", "native-3"):
        (cache / name).mkdir(parents=True)
    built = build(checkout, cache)
    assert built.returncode == 0, built.stderr
    assert len(folders(cache)) == 3
    assert Path(built.stdout.strip()).name in folders(cache)
