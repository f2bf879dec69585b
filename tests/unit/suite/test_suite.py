"""The runner of suites: what gets a second try, what does not, and what the summary says."""

import json
from pathlib import Path

import pytest
from tests.recording import Record
from tests.suite import run_suite, summarise

FLAKY = """
import pathlib, pytest

def test_passes_at_the_second_try():
    mark = pathlib.Path(__file__).with_name("was-here")
    was_here = mark.exists()
    mark.touch()
    assert was_here

def test_passes():
    pass
"""
FINAL = FLAKY.replace("def test_passes_at", "@pytest.mark.no_second_try\ndef test_passes_at")
BROKEN = "def test_fails_twice():\n    assert False\n"


ROOT = Path(__file__).parents[3]
# Each test starts pytest once or twice.
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pytest project of its own, which is the current one."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = no_second_try: final\n")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project: Path, source: str) -> int:
    (project / "test_one.py").write_text(source)
    return run_suite("one", ["test_one.py"], project / "records")


def test_a_test_that_passes_at_the_second_try_passes_and_is_named(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(project, FLAKY) == 0
    assert summarise(project / "records") == 0
    said = capfd.readouterr().out
    assert "1 passed only at the second try, 3 may:" in said
    assert "2 tests, the slowest" in said


def test_a_test_that_fails_twice_fails_the_suite(project: Path) -> None:
    assert run(project, BROKEN) == 1


def test_a_marked_test_has_no_second_try(project: Path) -> None:
    assert run(project, FINAL) == 1


def test_more_than_three_second_tries_fail_the_run(project: Path) -> None:
    records = [Record(f"test-{n}", False, 1.0, True) for n in range(4)]
    lines = [json.dumps(record._asdict()) for record in records]
    (project / "one.second.jsonl").write_text("\n".join(lines))
    assert summarise(project) == 1


def test_a_suite_that_could_not_run_fails(project: Path) -> None:
    assert run(project, "this is not Python") != 0
