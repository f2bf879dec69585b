"""What `penstock up --sandbox` gives its sandbox host, and the gateway that calls it."""

from enum import StrEnum
from typing import Final

from penstock.app.sandbox_process import make_driver
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.ports import free_port, is_free
from penstock.cli.up.state import UpState
from penstock.config import FILE_VARIABLE, PREFIX, Config, Loaded
from penstock.sandbox.host import SandboxProblem

_LOOPBACK: Final = "127.0.0.1"
_OWN_ROOMS: Final = (f"{PREFIX}SANDBOX_", f"{PREFIX}TELEMETRY_")


class SandboxKind(StrEnum):
    """Where code of models runs."""

    CONTAINERS = "containers"
    DEV = "dev"


def sandbox_settings(loaded: Loaded, state: UpState) -> dict[str, object]:
    """Return the settings of the host and of the gateway; both get a new token."""
    port = loaded.config.sandbox.port
    if "sandbox.port" not in loaded.sources and not is_free(_LOOPBACK, port):
        # Several runs may share a machine.
        port = free_port(_LOOPBACK)
    token = str(state.write_sandbox_token())
    return {
        "sandbox.host": _LOOPBACK,
        "sandbox.port": port,
        "sandbox.token_file": token,
        "tools.sandbox_hosts": [f"http://{_LOOPBACK}:{port}"],
        "tools.sandbox_token_file": token,
    }


def check_sandbox_host(config: Config, kind: SandboxKind) -> None:
    """Refuse now what the host would refuse when it starts."""
    try:
        make_driver(config.sandbox, is_dev=kind is SandboxKind.DEV)
    except SandboxProblem as problem:
        raise CommandFailed(f"--sandbox: {problem}", ExitCode.USAGE) from None


def sandbox_arguments(kind: SandboxKind) -> tuple[str, ...]:
    """Return the command of the host."""
    return ("sandbox", "--dev") if kind is SandboxKind.DEV else ("sandbox",)


def sandbox_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables of the host: none of ours but its own, so no address of Postgres."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIX) or name == FILE_VARIABLE or name.startswith(_OWN_ROOMS)
    }
