"""What this process is: its host's name, its version, and its row among the cell's workers."""

import os
import socket
from importlib.metadata import PackageNotFoundError, version

from penstock import DISTRIBUTION
from penstock.config import Config
from penstock.contracts.document import SCHEMA
from penstock.fleet.workers import Worker


def host_name(config: Config) -> str:
    """Return the name of this host in the roster: that of the settings, or the machine's."""
    return config.fleet.host or socket.gethostname()


def this_worker(config: Config, kind: str, holder: str, address: str = "") -> Worker:
    """Return what this process reports of itself; `address` is where it listens, if anywhere."""
    # Control compares: a process of an earlier release would serve without newer contracts.
    facts: dict[str, str | int] = {"pid": os.getpid(), "contract_schema": SCHEMA}
    if address:
        facts["address"] = address
    return Worker(holder, kind, host_name(config), installed_version(), facts)


def installed_version() -> str:
    """Return the version of the installed package."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        # The package runs without being installed, from a folder.
        return "unknown"
