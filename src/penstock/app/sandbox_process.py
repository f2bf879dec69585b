"""Runs a sandbox host by its settings alone: it has no store, no accounts and no engines."""

import asyncio
import ipaddress
from pathlib import Path

from penstock.clock import Clock
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.child_process import ChildProcess
from penstock.sandbox.control_groups import OURS, ControlGroups
from penstock.sandbox.driver import BoxDriver
from penstock.sandbox.host import SandboxProblem, run_host
from penstock.sandbox.settings import SandboxSettings


def make_driver(settings: SandboxSettings, *, is_dev: bool) -> BoxDriver:
    """Return what holds containers here; raise SandboxProblem if they would not be held."""
    if is_dev:
        if not _is_loopback(settings.host):
            raise SandboxProblem("With --dev nothing is isolated: sandbox.host must be loopback.")
        return ChildProcess()
    driver = bubblewrap_driver(settings)
    if problem := driver.problem():
        raise SandboxProblem(
            f"Containers cannot be held here: {problem}. `--dev` runs code without isolation."
        )
    return driver


def bubblewrap_driver(settings: SandboxSettings) -> Bubblewrap:
    """Return the driver of containers, whether or not it can hold them here."""
    # A port has one process at a time, so each process clears its own control groups only.
    return Bubblewrap(Path(settings.image), ControlGroups(ours=f"{OURS}-{settings.port}"))


async def run_sandbox(
    settings: SandboxSettings, clock: Clock, stop: asyncio.Event, *, is_dev: bool
) -> None:
    """Run until `stop` is set."""
    driver = await asyncio.to_thread(make_driver, settings, is_dev=is_dev)
    await run_host(driver, settings, clock, stop)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
