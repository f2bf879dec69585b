"""`penstock gateway`: HTTP in, SSE out, until SIGTERM."""

import os
import resource
import sys

import typer

from penstock.cli.options import ParentOption, invocation
from penstock.cli.ports import check_ports
from penstock.cli.postgres import require_dsn
from penstock.config import export


def gateway(context: typer.Context, parent_pid: ParentOption = 0) -> None:
    """Serve requests. SIGTERM stops accepting, lets streams finish, then ends."""
    invoked = invocation(context)
    config = invoked.load().config
    require_dsn(config)
    settings = config.ingress
    ports = {"ingress.port": settings.port, "ingress.metrics_port": settings.metrics_port}
    check_ports(settings.host, ports)
    _raise_file_limit()
    export({}, invoked.file)
    # The same process, without what only the command line needs: typer reads its options by
    # pydantic, which alone would keep 16 MB for as long as the gateway runs.
    # -P: whatever lies in the working folder is not ours to import.
    program = [sys.executable, "-P", "-m", "penstock.cli.gateway_process", str(parent_pid)]
    os.execv(sys.executable, program)  # noqa: S606 - ourselves, by our own name


def _raise_file_limit() -> None:
    """A stream takes two descriptors, and the usual soft limit of 1,024 is for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
