"""Checks what a sandbox host stands on, where `sandbox` is configured."""

import os
import platform
import shutil
from pathlib import Path

from penstock.cli.doctor.check import Check, fail, ok
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.host import SandboxProblem, read_token
from penstock.sandbox.seccomp import seccomp_filter
from penstock.sandbox.settings import SandboxSettings


def check_sandbox(settings: SandboxSettings) -> list[Check]:
    """Return a row for each thing that holds containers; none where no token is configured."""
    if not settings.token_file:
        return []
    return [
        _token(settings),
        _programs(),
        _root(),
        _groups(),
        _calls(),
        _image(settings),
    ]


def _token(settings: SandboxSettings) -> Check:
    try:
        read_token(settings)
    except SandboxProblem as problem:
        return fail("sandbox token", str(problem), "Make one with `openssl rand -hex 32`.")
    return ok("sandbox token", f"{settings.token_file} has it")


def _programs() -> Check:
    missing = [each for each in ("bwrap", "prlimit", "setpriv") if shutil.which(each) is None]
    if missing:
        advice = "Install bubblewrap and util-linux."
        return fail("sandbox bubblewrap", f"{' and '.join(missing)} not found", advice)
    return ok("sandbox bubblewrap", f"{shutil.which('bwrap')}")


def _root() -> Check:
    if os.geteuid() != 0:
        advice = "Run `penstock sandbox` as root, or by its systemd unit."
        return fail("sandbox root", "containers need users of their own", advice)
    return ok("sandbox root", "containers can have users of their own")


def _groups() -> Check:
    problem = ControlGroups().problem()
    if problem:
        advice = "Mount control groups with memory, pids and cpu, and let root make some."
        return fail("sandbox control groups", problem, advice)
    return ok("sandbox control groups", "memory, pids and cpu are there")


def _calls() -> Check:
    machine = platform.machine()
    try:
        seccomp_filter(machine)
    except KeyError:
        advice = "Use a host with x86-64 or arm64."
        return fail("sandbox seccomp", f"no list of system calls for {machine}", advice)
    return ok("sandbox seccomp", f"there is a list of system calls for {machine}")


def _image(settings: SandboxSettings) -> Check:
    problem = Bubblewrap(Path(settings.image), ControlGroups()).image_problem()
    if problem:
        return fail("sandbox image", problem, f"Run `penstock sandbox image {settings.image}`.")
    return ok("sandbox image", settings.image)
