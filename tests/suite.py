"""Runs one suite as CI does, and sums up all suites of a run.

    python -m tests.suite unit -n 2 tests/unit      runs pytest with these arguments
    python -m tests.suite --summary                 prints the slowest tests and the second tries

Tests of whole processes can miss a deadline on a busy machine. `suite` runs what failed once more,
alone; a test that fails twice fails the suite. Tests of money, of the queue and of hostile requests
have the mark `no_second_try`: for them the first failure is final. The summary fails when more than
`SECOND_TRIES_MAX` tests of the whole run needed their second try.
"""

import subprocess
import sys
from pathlib import Path

from tests.recording import Record, read_records

SECOND_TRIES_MAX = 3
SLOWEST_SHOWN = 25
# pytest's exit code when tests ran and some failed; all others but 0 mean that it did not run.
_SOME_FAILED = 1
FOLDER = Path("build") / "suites"


def main() -> int:
    if sys.argv[1:] == ["--summary"]:
        return summarise(FOLDER)
    name, *arguments = sys.argv[1:]
    return run_suite(name, arguments, FOLDER)


def run_suite(name: str, arguments: list[str], folder: Path) -> int:
    """Run pytest, and what failed a second time, alone. Returns an exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    first, second = folder / f"{name}.first.jsonl", folder / f"{name}.second.jsonl"
    for old in (first, second):
        old.unlink(missing_ok=True)
    code = _pytest(arguments, first)
    if code != _SOME_FAILED:
        return code
    failed = [record for record in read_records(first) if record.is_failed]
    final = [record.test for record in failed if not record.may_repeat]
    if final or not failed:
        print("no second try:", *(final or ["no test was recorded as failed"]), sep="\n  ")
        return code
    print(f"{len(failed)} failed; once more, alone:", flush=True)
    options = [each for each in arguments if each == "--full"]
    return _pytest([*options, *(record.test for record in failed)], second)


def _pytest(arguments: list[str], record: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.recording"]
    return subprocess.run([*command, "--record", str(record), *arguments], check=False).returncode


def summarise(folder: Path) -> int:
    """Print the slowest tests and those that passed at the second try; fail if these are many."""
    records = [each for file in sorted(folder.glob("*.first.jsonl")) for each in read_records(file)]
    print(f"{len(records)} tests, the slowest {SLOWEST_SHOWN}:")
    for record in slowest(records):
        print(f"{record.seconds:8.1f} s  {record.test}")
    repeated = [
        each.test for file in sorted(folder.glob("*.second.jsonl")) for each in read_records(file)
    ]
    print(f"{len(repeated)} passed only at the second try, {SECOND_TRIES_MAX} may:")
    for test in repeated:
        print(f"  {test}")
    return 0 if len(repeated) <= SECOND_TRIES_MAX else 1


def slowest(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: -record.seconds)[:SLOWEST_SHOWN]


if __name__ == "__main__":
    sys.exit(main())
