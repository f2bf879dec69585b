"""The runbooks' commands, each as somebody on call would type it, in one cell: they only look."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import Way, read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell
from tests.acceptance.docs_surroundings import Surroundings, cell_surroundings, reader_folder

RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))


@pytest.fixture(scope="module")
def cell() -> Iterator[tuple[Path, Surroundings]]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(reader_folder())
        yield folder, cell_surroundings(folder, stack)


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_on_call_can_follow_the_runbook(
    path: Path, cell: tuple[Path, Surroundings], tmp_path: Path
) -> None:
    folder, (environment, words) = cell
    page = read_page(path, ROOT)
    shell = Shell(folder, tmp_path, environment)
    try:
        done = PageRun(page, shell, words).follow()
    finally:
        shell.close()
    assert done == {Way.RUN: 3}
