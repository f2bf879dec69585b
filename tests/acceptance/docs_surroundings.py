"""What a reader of the docs has: a folder, an environment, and a running cell or an engine."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.acceptance.cli_run import free_port
from tests.acceptance.client_cell import SCRIPTED_CONTEXT_TOKENS, running_cell
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import Cell, Page, Way
from tests.acceptance.docs_page import ADDRESS, KEY

from penstock.cli.up.state import UpState
from penstock.testing import ScriptedEngine

_OPERATORS = "127.0.0.1:8790"
# What a reader has in the folder that `make setup` was run in.
_IN_THE_FOLDER = (".venv", "deploy", "examples")

# The environment that a page is read in, and what its words stand for.
Surroundings = tuple[dict[str, str], dict[str, str]]


@contextlib.contextmanager
def reader_folder() -> Iterator[Path]:
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    made = Path(tempfile.mkdtemp(prefix="penstock-docs-"))
    for name in _IN_THE_FOLDER:
        if (ROOT / name).exists():
            (made / name).symlink_to(ROOT / name)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def surroundings(page: Page, folder: Path, stack: contextlib.ExitStack) -> Surroundings:
    """Start what the page says that it needs, if it runs anything."""
    if not any(block.way is Way.RUN for block in page.blocks):
        return _environment(folder), {}
    if page.cell is Cell.NONE:
        engine = stack.enter_context(ScriptedEngine(model="acme/answers"))
        port = free_port()
        environment = _environment(folder)
        environment["PENSTOCK_INGRESS_PORT"] = str(port)
        environment["PENSTOCK_INGRESS_METRICS_PORT"] = "0"
        return environment, {
            ADDRESS: f"127.0.0.1:{port}",
            "http://127.0.0.1:8000": engine.url,
        }
    return cell_surroundings(folder, stack)


def cell_surroundings(folder: Path, stack: contextlib.ExitStack) -> Surroundings:
    """Start a scripted cell in the folder."""
    cell = stack.enter_context(running_cell(folder, SCRIPTED_CONTEXT_TOKENS))
    given = {"URL": cell.url, "KEY": cell.key, "ACCOUNT": cell.account}
    running = UpState(cell.state).read_running()
    assert running is not None
    return _environment(folder) | given, {
        ADDRESS: cell.url.removeprefix("http://"),
        KEY: cell.key,
        _OPERATORS: f"127.0.0.1:{running.control_port}",
    }


def _environment(folder: Path) -> dict[str, str]:
    programs = f"{ROOT / '.venv' / 'bin'}:{Path(sys.base_prefix) / 'bin'}"
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
