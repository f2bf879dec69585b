"""The package without what contracts add to a request that has none, compiled: to compare with.

`without_contracts.patch` takes the tests for contracts out of the modules that every request runs
through. It must apply, and nothing else in those modules may speak of contracts but what `_LEFT`
names: whoever adds work for contracts there adds it to the patch, and so it is counted. To change
the patch: `git apply` it, edit, `git diff -U1 src` into it, `git apply --reverse` it.
"""

import ast
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deploy.native.build import HERE, PACKAGE, ROOT, build, read_modules

from compiled_package import cache_folder

_PATCH: Final = Path(__file__).with_name("without_contracts.patch")
_ABOUT_CONTRACTS: Final = re.compile(r"contract|decision|screen|tool_terms", re.IGNORECASE)
# Modules of contracts alone, of the drain, which runs beside requests, and of traces: they are off.
_APART: Final = frozenset(
    {
        "contracts/compiling.py",
        "contracts/counts.py",
        "contracts/current.py",
        "contracts/deciding.py",
        "engine/answer_screen.py",
        "ingress/inference/contract_headers.py",
        "intake/contracted.py",
        "intake/contracted_rewrite.py",
        "intake/contracted_tools.py",
        "metering/journal_reader.py",
        "records/tool_terms.py",
        "records/trace.py",
        "serving/tool_call_filter.py",
        "telemetry/traces.py",
    }
)
# What runs once in a worker, or for no request without a contract; and two columns that turns and
# contracts share, which the ledger and the log have for every request.
_LEFT: Final = frozenset(
    {
        # Limits are read and changed beside requests; the others run where one is over a limit.
        ("admission/limit_table.py", "__init__"),
        ("admission/limit_table.py", "_owned_by"),
        ("admission/limit_table.py", "_add"),
        ("admission/limit_table.py", "_drop"),
        ("intake/opened_request.py", "fallen_back"),
        ("intake/request_reader.py", "read_fallback"),
        ("records/limit.py", "__init__"),
        ("records/limit.py", "_facts"),
        ("serving/request_path.py", "_lease"),
        ("serving/request_path.py", "_log_of"),
        ("serving/request_path.py", "_note_passed"),
        ("ingress/inference/request_accounting.py", "__init__"),
        ("ingress/inference/request_accounting.py", "count_contract"),
        ("ingress/inference/request_accounting.py", "logged"),
        ("intake/request_reader.py", "__init__"),
        ("metering/ledger_line.py", "_belongs_to"),
        ("records/request.py", "__init__"),
        ("serving/request_path.py", "__init__"),
        ("telemetry/request_line.py", "_belongs_to"),
    }
)


def without_contracts_folder() -> Path:
    """What a child gets as PYTHONPATH; compiled on first use, which takes minutes."""
    with tempfile.TemporaryDirectory(prefix="penstock-without-") as folder:
        root = Path(folder)
        copy_checkout(root)
        take_out(root)
        if faults := left_of_contracts(root):
            raise SystemExit("\n".join([*faults, f"Take these out in {_PATCH.name}, too."]))
        # Not among the packages that tests and wheels share, of which few are kept.
        return build(root, cache_folder() / "without-contracts")


def copy_checkout(root: Path) -> None:
    """Copy what is compiled, and how."""
    shutil.copytree(ROOT / "src", root / "src")
    shutil.copytree(HERE, root / HERE.relative_to(ROOT))
    shutil.copy(ROOT / "pyproject.toml", root)


def take_out(root: Path, patch: Path = _PATCH) -> None:
    """Apply the patch; an error shows the place that has changed since."""
    subprocess.run(["git", "apply", str(patch)], cwd=root, check=True)


def left_of_contracts(root: Path) -> list[str]:
    """Return each function of the compiled modules that speaks of contracts, and may not."""
    return list(_left(root))


def _left(root: Path) -> Iterator[str]:
    for module in read_modules(root):
        if module in _APART:
            continue
        tree = ast.parse((root / "src" / PACKAGE / module).read_bytes())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            names = {name for node in ast.walk(function) for name in _names(node)}
            about = sorted(filter(_ABOUT_CONTRACTS.search, names))
            if about and (module, function.name) not in _LEFT:
                yield f"{module}: {function.name} has {', '.join(about)}"


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg | ast.keyword) and node.arg is not None:
        yield node.arg
