"""The units of deploy/systemd under a real systemd: gateway, control, and keeper with an engine.

The keeper launches a scripted engine as its recipe says.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.deploy_machine import Machine, running_machine

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
SERVICES = ("gateway", "control", "keeper")
MODEL = "@cf/test/units"
URL = "http://127.0.0.1:8787"
_READY_SECONDS = 60.0
_SETTINGS = "/etc/penstock/penstock.toml"

_PENSTOCK_TOML = f"""
[ingress]
workers = 2
[catalogue]
folder = "/etc/penstock/models"
default_model = "{MODEL}"
[metering]
journal_folder = "/var/lib/penstock/journal"
[fleet]
state_folder = "/var/lib/penstock/fleet"
[[fleet.replicas]]
model = "{MODEL}"
"""
_MODEL_TOML = f"""
id = "{MODEL}"
family = "openai"
context_tokens = 100_000
[recipe]
command = [
  "/opt/penstock/bin/python", "-m", "penstock.testing.scripted_engine", "--port", "{{port}}",
  "--model", "{MODEL}",
]
"""


class UnitsCell:
    """Made by `running_units`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._key = ""

    def start(self) -> None:
        """Do as an operator does on a new host."""
        run = self.machine.run
        run("systemd-sysusers", "/usr/lib/sysusers.d/penstock.conf")
        run("chown", "-R", "root:penstock", "/etc/penstock")
        run("chmod", "-R", "u=rwX,g=rX,o=", "/etc/penstock")
        run("chmod", "0600", "/etc/penstock/environment")
        self.machine.penstock("migrate")
        run("systemctl", "daemon-reload")
        run("systemctl", "enable", "--now", "penstock.target", *map(unit_of, SERVICES))
        self.wait_until_ready()
        account = json.loads(self.machine.penstock("account", "create", "team", "--json"))
        key = self.machine.penstock("key", "create", "--account", account["id"], "--json")
        self._key = json.loads(key)["secret"]

    def chat(self) -> Any:
        return json.loads(self.machine.run(*self._request(8, 0.0, is_stream=False)))

    @contextmanager
    def stream(self, tokens: int, interval: float) -> Iterator[subprocess.Popen[str]]:
        """Read a stream by its standard output; it runs for tokens * interval seconds."""
        with self.machine.popen(*self._request(tokens, interval, is_stream=True)) as reader:
            try:
                yield reader
            finally:
                reader.kill()

    def property_of(self, service: str, name: str) -> str:
        return self.machine.run(
            "systemctl", "show", "--value", f"--property={name}", unit_of(service)
        )

    def status_of(self, service: str) -> dict[str, str]:
        """Return the kernel's words on the service's main process."""
        pid = self.property_of(service, "MainPID")
        lines = self.machine.run("cat", f"/proc/{pid}/status").splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def engine_pids(self) -> str:
        return self.machine.run("pgrep", "--full", "scripted_engine")

    def wait_until_ready(self) -> None:
        ask = ("curl", "--silent", "--max-time", "5", f"{URL}/readyz")
        self._until(lambda: '"ready"' in self.machine.run(*ask, check=False))

    def wait_for_property(self, service: str, name: str, value: str) -> None:
        self._until(lambda: self.property_of(service, name) == value)

    def wait_for_line(self, service: str, words: str) -> None:
        self._until(lambda: words in self._log_of(service))

    @contextmanager
    def changed_settings(self, more: str) -> Iterator[None]:
        """Add lines to the settings for as long as the block lasts."""
        self.machine.run("sh", "-c", f'printf "%s" "$0" >> {_SETTINGS}', more)
        try:
            yield
        finally:
            lines = more.count("\n")
            self.machine.run(
                "sh", "-c", f"head -n -{lines} {_SETTINGS} > /tmp/s; cat /tmp/s > {_SETTINGS}"
            )

    def _request(self, tokens: int, interval: float, *, is_stream: bool) -> list[str]:
        script = json.dumps({"tokens": tokens, "interval": interval})
        message = {"role": "user", "content": f"Go on.\n@script {script}"}
        body = {
            "model": "default",
            "messages": [message],
            "max_tokens": tokens,
            "stream": is_stream,
        }
        words = ["curl", "--silent", "--no-buffer", "--fail-with-body", "--max-time", "60"]
        words += ["--header", f"authorization: Bearer {self._key}", "--data", json.dumps(body)]
        return [*words, f"{URL}/v1/chat/completions"]

    def _log_of(self, service: str) -> str:
        return self.machine.run(
            "journalctl", "--no-pager", "--lines=40", "--unit", unit_of(service)
        )

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if is_so():
                return
            time.sleep(0.1)
        raise AssertionError("\n".join(self._log_of(service) for service in SERVICES))


def unit_of(service: str) -> str:
    return f"penstock-{service}.service"


@contextmanager
def running_units(package: Path, postgres: Path) -> Iterator[UnitsCell]:
    """Start the units with this package as /opt/penstock, on the embedded Postgres in a folder."""
    socket = postgres / "socket"
    # Its own user alone may connect else.
    socket.chmod(0o755)
    (socket / ".s.PGSQL.5432").chmod(0o777)
    files = {
        f"etc/systemd/system/{path.name}": path.read_text()
        for path in (*UNITS.glob("*.service"), *UNITS.glob("*.target"))
    }
    files |= {
        "usr/lib/sysusers.d/penstock.conf": (UNITS / "penstock.sysusers").read_text(),
        _SETTINGS[1:]: _PENSTOCK_TOML,
        "etc/penstock/models/units.toml": _MODEL_TOML,
        "etc/penstock/environment": (
            "PENSTOCK_STORE_DSN='postgresql://penstock@/postgres?host=/srv/postgres'\n"
        ),
    }
    with running_machine(files, package, socket) as machine:
        cell = UnitsCell(machine)
        cell.start()
        yield cell
