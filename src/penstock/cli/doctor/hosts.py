"""Checks what the keepers of the cell report of their hosts."""

from collections.abc import Sequence
from typing import Final

from penstock.cli.doctor.check import Check, ok, warn
from penstock.fleet.hosts import SeenHost
from penstock.fleet.weights.fetch_loop import CANNOT_FETCH
from penstock.records.host import Gpu, gpus_in_words
from penstock.records.replica import Replica

_SILENT_SECONDS: Final = 30.0


def check_hosts(hosts: Sequence[SeenHost], replicas: Sequence[Replica]) -> list[Check]:
    """Return a row for each host, and one for each model that finds no GPUs there."""
    checks: list[Check] = []
    for host in hosts:
        report, name = host.report, f"host {host.report.name}"
        if host.silent_seconds > _SILENT_SECONDS:
            heard = f"its keeper was heard {host.silent_seconds:.0f} s ago"
            checks.append(warn(name, heard, "Start `penstock keeper` there, or look at its log."))
            continue
        running = sum(1 for replica in replicas if replica.host == report.name)
        checks.append(ok(name, f"{_gpus(report.gpus)}, {_replicas(running)}"))
        checks += [
            warn(name, f"{model} waits: it {reason}", "Free GPUs, or want fewer replicas.")
            for model, reason in report.waiting.items()
        ]
        checks += [_fetching(name, *each) for each in report.fetching.items()]
    return checks


def _fetching(host: str, model: str, reason: str) -> Check:
    if not reason.startswith(CANNOT_FETCH):
        return ok(host, f"{model} {reason}")
    return warn(host, f"{model} {reason}", "Try `penstock models fetch` there.")


def _replicas(count: int) -> str:
    if not count:
        return "no replica"
    return "1 replica" if count == 1 else f"{count} replicas"


def _gpus(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no GPU"
    kinds = sorted({gpu.name for gpu in gpus if gpu.name})
    count = gpus_in_words(len(gpus))
    return f"{count} ({', '.join(kinds)})" if kinds else count
