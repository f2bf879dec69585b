"""Finds the gateway that a command calls, and the key for it.

Options come first, then PENSTOCK_URL and PENSTOCK_KEY, then `penstock up`, then `ingress` (URL).
"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.up.state import UpState
from penstock.config import Config, client_defaults

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        help="The gateway; PENSTOCK_URL, or that of --state or of ingress.port, if not given.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="A file with the key's secret; PENSTOCK_KEY, or the key of --state, if not given.",
    ),
]


def gateway_url(given: str, config: Config, state: Path) -> str:
    """Return the gateway's URL; `given` is the option's value."""
    named = given or client_defaults().url
    if named:
        return named
    running = UpState(state).read_running()
    if running is not None:
        return f"http://{running.host}:{running.port}"
    return f"http://{config.ingress.host}:{config.ingress.port}"


def read_secret(key_file: Path | None, state: Path) -> str:
    if key_file is not None:
        return key_file.read_text().strip()
    if key := client_defaults().key:
        return key
    credentials = UpState(state).read_credentials()
    if credentials is None:
        raise CommandFailed(
            f"There is no key: {state} is not the folder of a `penstock up`. Pass --key-file, or"
            " set PENSTOCK_KEY.",
            ExitCode.USAGE,
        )
    return credentials.secret
