"""The page of four hosts, word for word, on five namespaces with imitated GPUs and engines."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.cli_run import pids_with
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell
from tests.integration.cells.host_namespaces import HEAD, namespaces
from tests.integration.cells.network_postgres import POSTGRES_PROGRAMS, network_postgres

PAGE = read_page(ROOT / "docs" / "four-hosts.md", ROOT)
HOSTS = (1, 2, 3, 4)
HEAD_ADDRESS = "10.77.0.1"
GPUS = 8
MODELS = {"@cf/moonshotai/kimi-k2.5": ("kimi-k2.5", 8), "@cf/openai/gpt-oss-120b": ("oss", 2)}
STEP_SECONDS = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: as root that is shut to Postgres's user."""
    made = Path(tempfile.mkdtemp(prefix="penstock-hosts-"))
    made.chmod(0o755)
    yield made
    for pid in pids_with(made):
        os.kill(pid, 9)
    shutil.rmtree(made)


@pytest.mark.timeout(600)
def test_five_hosts_are_set_up_word_for_word(folder: Path, tmp_path: Path) -> None:
    addresses = {HEAD: HEAD_ADDRESS} | {f"gpu-{n}": f"10.77.0.1{n}" for n in HOSTS}
    with ExitStack() as stack:
        names = stack.enter_context(namespaces(f"ps{os.getpid()}", addresses))
        head = ("ip", "netns", "exec", names[HEAD])
        stack.enter_context(
            network_postgres(folder / "postgres", HEAD_ADDRESS, ["10.77.0.0/24"], head)
        )
        runs = {host: _reader(stack, host, names[host], folder, tmp_path) for host in names}
        for block in PAGE.blocks:
            if block.marks["on"] == "each":
                _copy_files(folder)
            for host, run in runs.items():
                if (host == HEAD) == (block.marks["on"] == HEAD):
                    run.do(block)
            if "chat/completions" in block.text:
                answer = json.loads(runs[HEAD].printed)
                assert answer["choices"][0]["message"]["content"]
        engines = list(folder.glob("gpu-*/gpus/*"))
        assert engines
        assert not [path for path in engines if path.name.startswith("double-")]


def _reader(stack: ExitStack, host: str, namespace: str, folder: Path, scripts: Path) -> PageRun:
    """Somebody at one host's terminal, in a folder of that host's own."""
    own = folder / host
    own.mkdir()
    typed = scripts / host
    typed.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{POSTGRES_PROGRAMS}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(own),
        "LANG": "C.UTF-8",
        # What is imitated: the models' engines, and the GPUs.
        "PENSTOCK_CATALOGUE_FOLDER": str(_catalogue(own)),
        "PENSTOCK_FLEET_GPUS": str(GPUS),
        "PENSTOCK_FLEET_ENGINE_HOME": str(own / "gpus"),
    }
    if host != HEAD:
        environment["N"] = host.removeprefix("gpu-")
    shell = Shell(own, typed, environment, prefix=("ip", "netns", "exec", namespace))
    stack.callback(shell.close)
    return PageRun(PAGE, shell, {}, seconds=STEP_SECONDS)


def _copy_files(folder: Path) -> None:
    """What the page says that each host has beside it."""
    for number in HOSTS:
        for name in ("penstock.toml", "cell.key"):
            shutil.copy(folder / HEAD / name, folder / f"gpu-{number}" / name)


def _catalogue(folder: Path) -> Path:
    made = folder / "imitated"
    made.mkdir()
    for model, (name, gpus) in MODELS.items():
        command = [sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"]
        command += ["--host", "{address}", "--port", "{port}", "--gpu-folder", "{engine_home}"]
        (made / f"{name}.toml").write_text(
            f"""
id = "{model}"
aliases = ["{"gpt-oss-120b" if name == "oss" else name}"]
family = "openai"
context_tokens = 100_000
[recipe]
served_name = "m"
gpus = {gpus}
command = {json.dumps(command)}
[recipe.environment]
VLLM_API_KEY = "{{engine_key}}"
"""
        )
    return made
