"""Checks whether the hosts of the roster can receive each other's signals."""

from collections.abc import Iterable

from penstock.app.this_process import host_name
from penstock.cli.doctor.check import Check, ok, warn
from penstock.config import Config
from penstock.signals import SignalsSettings
from penstock.signals.reach import ADVICE, reach_problem

_NAME = "signals"


async def check_signals(config: Config, roster_hosts: Iterable[str]) -> Check:
    """Check signals between this machine and `roster_hosts`, the hosts of the replicas."""
    settings = config.signals
    hosts = len({host_name(config), *roster_hosts} - {""})
    if settings.transport == "nats" and (problem := await _nats_problem(settings)):
        advice = "Start it, or correct signals.nats_url; gateways route by what they know alone."
        return warn(_NAME, f"NATS cannot be reached ({problem})", advice)
    if problem := reach_problem(settings, hosts, is_up=True):
        return warn(_NAME, problem, ADVICE)
    return ok(_NAME, f"{settings.transport}, {hosts} host{'s' if hosts > 1 else ''}")


async def _nats_problem(settings: SignalsSettings) -> str:
    # Imported only if NATS is configured, because nothing else needs its client.
    from penstock.signals.nats import find_problem  # noqa: PLC0415 - see above

    return await find_problem(settings)
