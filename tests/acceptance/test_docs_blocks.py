"""Every code block of the README and the docs works: it is run, read or, where that takes a GPU or
several hosts, checked without running. `docs_blocks.py` has the marks by which a block says so.
"""

import collections
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import free_port
from tests.acceptance.client_cell import SCRIPTED_CONTEXT_TOKENS, running_cell
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import Cell, Page, Way, read_page
from tests.acceptance.docs_page import ADDRESS, KEY, PageRun
from tests.acceptance.docs_shell import Shell

from penstock.cli.up.state import UpState
from penstock.testing import ScriptedEngine

OPERATORS = "127.0.0.1:8790"
# A block more that cannot be run is a decision: raise these with the reason in the commit.
DRY_MAX = 8
SHOWN_BY_MARK_MAX = 2

# test_quickstart.py follows the first, from nothing, test_four_hosts.py the second, and
# `make chaos-kubernetes` the third.
FOLLOWED_ELSEWHERE = {
    ROOT / "docs" / name for name in ("quickstart.md", "four-hosts.md", "on-kubernetes.md")
}
# Generated pages have no blocks of their own; decisions are never edited.
LEFT_OUT = ("docs/reference", "docs/decisions")
PATHS = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)
]
FOLLOWED = [path for path in PATHS if path not in FOLLOWED_ELSEWHERE and "```" in path.read_text()]
# What a reader has in the folder that `make setup` was run in.
IN_THE_FOLDER = (".venv", "deploy", "examples")


def test_every_block_has_its_way_and_few_are_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    pages = [read_page(path, ROOT) for path in PATHS]
    ways = collections.Counter(block.way for page in pages for block in page.blocks)
    dry = [(block.name, block.marks["dry"]) for page in pages for block in page.having(Way.DRY)]
    by_mark = [block for page in pages for block in page.blocks if "shown" in block.marks]
    with capsys.disabled():
        print(f"\nblocks in {len(pages)} pages: ", end="")
        print(", ".join(f"{count} {way.name.lower()}" for way, count in sorted(ways.items())))
        for name, reason in dry:
            print(f"  dry-run: {name} {reason}")
    assert len(dry) <= DRY_MAX
    assert len(by_mark) <= SHOWN_BY_MARK_MAX


@pytest.mark.parametrize("path", FOLLOWED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_reader_can_follow_the_page(path: Path, folder: Path, tmp_path: Path) -> None:
    page = read_page(path, ROOT)
    with contextlib.ExitStack() as stack:
        environment, words = _surroundings(page, folder, stack)
        shell = Shell(folder, tmp_path, environment)
        stack.callback(shell.close)
        done = PageRun(page, shell, words).follow()
    assert done.total() == len(page.blocks)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    made = Path(tempfile.mkdtemp(prefix="penstock-docs-"))
    for name in IN_THE_FOLDER:
        if (ROOT / name).exists():
            (made / name).symlink_to(ROOT / name)
    yield made
    shutil.rmtree(made)


def _surroundings(
    page: Page, folder: Path, stack: contextlib.ExitStack
) -> tuple[dict[str, str], dict[str, str]]:
    """The environment that the page is read in, and what its words stand for."""
    programs = f"{ROOT / '.venv' / 'bin'}:{Path(sys.base_prefix) / 'bin'}"
    environment = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    if not any(block.way is Way.RUN for block in page.blocks):
        return environment, {}
    if page.cell is Cell.NONE:
        engine = stack.enter_context(ScriptedEngine(model="acme/answers"))
        port = free_port()
        environment["PENSTOCK_INGRESS_PORT"] = str(port)
        environment["PENSTOCK_INGRESS_METRICS_PORT"] = "0"
        return environment, {
            ADDRESS: f"127.0.0.1:{port}",
            "http://127.0.0.1:8000": engine.url,
        }
    cell = stack.enter_context(running_cell(folder, SCRIPTED_CONTEXT_TOKENS))
    environment |= {"URL": cell.url, "KEY": cell.key, "ACCOUNT": cell.account}
    running = UpState(cell.state).read_running()
    assert running is not None
    control = f"127.0.0.1:{running.control_port}"
    return environment, {
        ADDRESS: cell.url.removeprefix("http://"), KEY: cell.key, OPERATORS: control,
    }  # fmt: skip
