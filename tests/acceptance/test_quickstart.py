"""The quickstart's laptop way, word for word, by somebody who has nothing yet: an empty folder, an
empty home, no variables but those that say how this machine reaches its package index. Only what
was downloaded before is used again (wheels, the CPU engine): the printed times are with that.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import free_port, pids_with
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import Way, read_page
from tests.acceptance.docs_page import ADDRESS, PageRun
from tests.acceptance.docs_shell import Shell

from penstock.config import cpu_engine_folder, environment_for

PAGE = read_page(ROOT / "docs" / "quickstart.md", ROOT)
REPOSITORY = "<the address of this repository>"
# How this machine reaches its package index; a newcomer's own has its own.
NETWORK = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_")
STEP_SECONDS = 420.0


@pytest.fixture
def newcomer() -> Iterator[Path]:
    """A folder with an empty home in it. Not tmp_path: as root that is shut to Postgres's user."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-newcomer-"))
    folder.chmod(0o755)
    (folder / "home").mkdir()
    yield folder
    for pid in pids_with(folder):
        os.kill(pid, 9)
    shutil.rmtree(folder)


@pytest.mark.timeout(900)
def test_the_quickstart_answers_word_for_word_in_an_empty_environment(
    newcomer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    words = {ADDRESS: f"127.0.0.1:{port}", REPOSITORY: str(_repository(tmp_path / "origin"))}
    shell = Shell(newcomer, tmp_path, _environment(newcomer / "home", port))
    began = time.monotonic()
    first_answer = 0.0
    try:
        run = PageRun(PAGE, shell, words, seconds=STEP_SECONDS)
        for block in PAGE.blocks:
            run.do(block)
            if not first_answer and "chat/completions" in block.text:
                assert '"content":"' in run.printed, run.printed
                first_answer = time.monotonic() - began
    finally:
        shell.close()
    whole = time.monotonic() - began
    with capsys.disabled():
        ran = len(PAGE.having(Way.RUN))
        print(
            f"\nquickstart: first answer after {first_answer:.0f} s, all {ran} blocks {whole:.0f} s"
        )
    assert first_answer


def _repository(folder: Path) -> Path:
    """What `git clone` gets: this checkout as it is, committed or not, with or without a .git."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".penstock", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=ignored, symlinks=True)
    git = ("git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=n@example.com")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "as it is"]):
        subprocess.run([*git, *command], check=True, timeout=60)
    return folder


def _environment(home: Path, port: int) -> dict[str, str]:
    inherited = environment_for({})
    network = {name: value for name, value in inherited.items() if name.startswith(NETWORK)}
    wheels = subprocess.run(
        [ROOT / ".venv" / "bin" / "uv", "cache", "dir"], capture_output=True, text=True, check=True
    )
    return network | {
        "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "UV_CACHE_DIR": wheels.stdout.strip(),
        "PENSTOCK_CACHE": str(cpu_engine_folder().parent),
        # Others may hold the page's own ports on this machine.
        "PENSTOCK_INGRESS_PORT": str(port),
        "PENSTOCK_INGRESS_METRICS_PORT": "0",
    }
