"""The size and shape of the code, held by a test: caps, names, docstrings, exemptions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import LONG_FILES

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
BESIDE = ("tests", "benchmarks", "examples", "docs", "deploy")
ALL = sorted([*SOURCES, *(path for folder in BESIDE for path in (ROOT / folder).rglob("*.py"))])

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
BANNED_ENDINGS = (
    "utils", "helpers", "common", "misc", "core", "base", "types", "manager", "handler",
    "service", "processor",
)  # fmt: skip


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_file_and_its_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX
    for function in functions(ast.parse(text)):
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        assert lines <= FUNCTION_LINES_MAX, f"{function.name} has {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_names_say_a_responsibility(path: Path) -> None:
    names = [path.stem, path.parent.name]
    names += [n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
    for name in names:
        assert not name.lower().endswith(BANNED_ENDINGS), name


def test_there_are_no_lint_exemptions_but_one_line_ones_with_a_reason() -> None:
    for path in SOURCES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert "ruff: noqa" not in line, f"{name_of(path)}:{number}"
            if "# noqa" in line:
                reason = line.partition("# noqa")[2]
                assert " - " in reason, f"{name_of(path)}:{number} has no reason"


# Speed tricks that were taken back (ADR 24 and 25). Whoever needs one again measures first, and
# takes its name out of this list.
TAKEN_BACK = (
    "InTask", "last_chunks", "push_last", "tell_sent", "RepeatedHead", "Unfilled", "GMAC",
)  # fmt: skip
TAKEN_BACK_FILES = (
    "app/second_signal.py", "engine/running.py", "ingress/repeated_head.py", "ingress/unfilled.py",
    "wire/gmac.py", "wire/large_body.py",
)  # fmt: skip


def test_speed_tricks_that_were_taken_back_stay_away() -> None:
    package = ROOT / "src" / "penstock"
    assert [name for name in TAKEN_BACK_FILES if (package / name).exists()] == []
    for path in SOURCES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        for field in ("id", "attr", "name"):
            names = {getattr(node, field, None) for node in nodes}
            assert names.isdisjoint(TAKEN_BACK), name_of(path)


def test_only_the_heap_calls_c_by_ctypes() -> None:
    users = [path for path in SOURCES if "ctypes" in path.read_text()]
    assert [path.name for path in users] == ["heap.py"]


def test_no_two_public_classes_have_one_name() -> None:
    """So that a search for a class finds one."""
    where: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(name_of(path))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_tests_import_nothing_from_each_other() -> None:
    """What several of them need is in a helper beside them, which is no test."""
    for path in (ROOT / "tests").rglob("*.py"):
        modules = [
            node.module or ""
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        assert not [name for name in modules if ".test_" in name], name_of(path)


def test_files_that_start_first_are_there() -> None:
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(LONG_FILES) <= names
