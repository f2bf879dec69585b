"""Checks ports, disk and file descriptors of this machine."""

import resource
import shutil
from pathlib import Path

from penstock.cli.doctor.check import Check, fail, ok, warn
from penstock.cli.http_call import HttpCaller
from penstock.cli.ports import is_free
from penstock.cli.up.ready import local_address
from penstock.errors import ReplicaUnreachable
from penstock.ingress.settings import IngressSettings

_GIB = 2**30
_DISK_FAIL_BYTES = _GIB // 2
_DISK_WARN_BYTES = 5 * _GIB


def check_ports(settings: IngressSettings) -> list[Check]:
    """Check that each port is free or Penstock's own, which its answer shows."""
    pages = [
        ("port", settings.port, "/readyz", b"keys_loaded", "ingress.port"),
        ("metrics port", settings.metrics_port, "/metrics", b"penstock_", "ingress.metrics_port"),
    ]
    checks = []
    for title, port, path, mark, setting in pages:
        name = f"{title} {port}"
        if not port:
            continue
        if is_free(settings.host, port):
            checks.append(ok(name, "is free"))
        elif _is_ours(f"http://{local_address(settings.host)}:{port}", path, mark):
            checks.append(ok(name, "is in use by Penstock"))
        else:
            advice = f"Stop what uses it, or choose another one with {setting}."
            checks.append(fail(name, "is in use by another program", advice))
    return checks


def check_disk(folder: Path) -> Check:
    """Check for room for Postgres, the engines' logs, and our own."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    finding = f"{free / _GIB:.1f} GiB free at {there}"
    advice = "Make room: Postgres stops when the disk is full."
    if free < _DISK_FAIL_BYTES:
        return fail("disk", finding, advice)
    return warn("disk", finding, advice) if free < _DISK_WARN_BYTES else ok("disk", finding)


def check_descriptors(settings: IngressSettings) -> Check:
    """Check the hard limit, because the gateway raises its soft limit to it."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * settings.connections_max
    finding = f"{limit:,} may be open in one process"
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return ok("file descriptors", finding)
    return warn(
        "file descriptors",
        f"{finding}; ingress.connections_max = {settings.connections_max:,} may need {wanted:,}",
        f"Raise the hard limit (`ulimit -Hn {wanted}`), or lower ingress.connections_max.",
    )


def _is_ours(url: str, path: str, mark: bytes) -> bool:
    try:
        return mark in HttpCaller(seconds=3.0).get(url, path).body
    except ReplicaUnreachable:
        return False
