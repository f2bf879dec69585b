"""Every code block of the README and the docs works: it is run, read or, where that takes a GPU or
several hosts, checked without running. `docs_blocks.py` has the marks by which a block says so.
"""

import collections
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import Way, read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell
from tests.acceptance.docs_surroundings import reader_folder, surroundings

# A block more that cannot be run is a decision: raise these with the reason in the commit.
DRY_MAX = 9
SHOWN_BY_MARK_MAX = 2

# test_quickstart.py follows the first, from nothing, test_four_hosts.py the second, and
# `make chaos-kubernetes` the third; test_docs_runbooks.py the runbooks, in one cell.
FOLLOWED_ELSEWHERE = {
    *(ROOT / "docs" / name for name in ("quickstart.md", "four-hosts.md", "on-kubernetes.md")),
    *(ROOT / "docs" / "runbooks").glob("*.md"),
}
# Generated pages have no blocks of their own; decisions are never edited.
LEFT_OUT = ("docs/reference/", "docs/decisions/")
PATHS = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)
]
FOLLOWED = [path for path in PATHS if path not in FOLLOWED_ELSEWHERE and "```" in path.read_text()]


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
        environment, words = surroundings(page, folder, stack)
        shell = Shell(folder, tmp_path, environment)
        stack.callback(shell.close)
        done = PageRun(page, shell, words).follow()
    assert done.total() == len(page.blocks)


@pytest.fixture
def folder() -> Iterator[Path]:
    with reader_folder() as made:
        yield made
