"""Runs of client scripts in the environments that clients/setup-python and setup-node filled.

A script is told where to go by PENSTOCK_URL, PENSTOCK_KEY and PENSTOCK_ACCOUNT, gets its arguments
as further variables in capitals, and prints one JSON document as its last line.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.client_cell import ClientCell

from penstock.config import cpu_engine_folder

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "acceptance" / "clients"
_RUN_SECONDS = 120
_SHOWN_CHARACTERS = 4000


def run_python(script: str, cell: ClientCell, **arguments: str) -> Any:
    """What tests/acceptance/clients/python/`script` printed last."""
    program = clients_folder("python", ROOT / "requirements" / "clients.txt") / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="penstock-client-") as home:
        command = [str(program), str(CLIENTS / "python" / script)]
        return _run(command, Path(home), client_environment(cell, home, arguments))


def run_node(script: str, cell: ClientCell, **arguments: str) -> Any:
    """What tests/acceptance/clients/node/`script`.mjs printed last."""
    sources = CLIENTS / "node"
    packages = clients_folder("node", sources / "package-lock.json") / "node_modules"
    program = shutil.which("node")
    assert program, "node is not installed"
    with tempfile.TemporaryDirectory(prefix="penstock-client-") as home:
        # Node looks for packages beside the script that imports them.
        shutil.copytree(sources, home, dirs_exist_ok=True)
        (Path(home) / "node_modules").symlink_to(packages)
        command = [program, f"{script.removesuffix('.mjs')}.mjs"]
        return _run(command, Path(home), client_environment(cell, home, arguments))


def run_shell(line: str, cell: ClientCell, **arguments: str) -> str:
    """What a shell's line printed, with `$PENSTOCK_URL` and the rest set as in a person's shell."""
    with tempfile.TemporaryDirectory(prefix="penstock-client-") as home:
        command = ["bash", "-euo", "pipefail", "-c", line]
        return _printed(command, Path(home), client_environment(cell, home, arguments))


def clients_folder(language: str, pins: Path) -> Path:
    """Where `setup-LANGUAGE` installed what these pins say; `.ready` in it is its last word."""
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()[:16]
    folder = cpu_engine_folder().parent / f"clients-{language}-{digest}"
    if not (folder / ".ready").exists():
        pytest.fail(f"tests/acceptance/clients/setup-{language} has not been run")
    return folder


def client_environment(cell: ClientCell, home: str, arguments: dict[str, str]) -> dict[str, str]:
    """All that a client may know: nothing of the tests' own environment gets through."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PENSTOCK_URL": cell.url,
        "PENSTOCK_KEY": cell.key,
        "PENSTOCK_ACCOUNT": cell.account,
        **{name.upper(): value for name, value in arguments.items()},
    }


def _run(command: list[str], home: Path, environment: dict[str, str]) -> Any:
    return json.loads(_printed(command, home, environment).splitlines()[-1])


def _printed(command: list[str], home: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=_RUN_SECONDS,
    )
    if done.returncode != 0:
        told = done.stdout[-_SHOWN_CHARACTERS:] + done.stderr[-_SHOWN_CHARACTERS:]
        told = told.replace(environment["PENSTOCK_KEY"], "(the key)")
        pytest.fail(f"{command[-1]} ended with {done.returncode}:\n{told}")
    return done.stdout
