"""`penstock gateway`: checks the settings, then becomes the gateway's own process."""

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
    # Replace the program, to drop what only the command line needs: typer reads its options by
    # pydantic, which alone would keep 16 MB for as long as the gateway runs.
    # -P: the gateway must not import modules of the working folder.
    program = [sys.executable, "-P", "-m", "penstock.cli.gateway_process", str(parent_pid)]
    os.execv(sys.executable, program)  # noqa: S606 - ourselves, by our own name


def _raise_file_limit() -> None:
    """Raise the soft limit to the hard one: a stream takes two, and the usual 1,024 are too few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
