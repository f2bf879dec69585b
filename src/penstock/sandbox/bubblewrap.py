"""Starts containers by bubblewrap: namespaces, a user of its own, control groups and seccomp.

A container sees /usr and the image read-only, an empty /tmp and /mnt/data of bounded size, and no
network. It shares the host's kernel.
"""

import asyncio
import contextlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from penstock.sandbox.box import Box
from penstock.sandbox.control_groups import ControlGroup, ControlGroups
from penstock.sandbox.driver import START_SECONDS, BoxSpec, wait_ready
from penstock.sandbox.kernel_pipes import Complaints, HostEnd, KernelEnd, open_kernel_pipes
from penstock.sandbox.seccomp import seccomp_filter

_KERNEL: Final = Path(__file__).with_name("kernel_program.py")
_TMP_BYTES: Final = 64 * 2**20
_SHARED_BYTES: Final = 16 * 2**20
# The shell enters the control groups before it becomes the container. Code can read the environment
# of the container's first process, so that process gets none.
_ENTER: Final = (
    'for entry in $ENTRIES; do echo $$ > "$entry" || exit 1; done; exec env -i PATH="$PATH" "$@"'
)
_TMP: Final = "/tmp"  # noqa: S108 - the container's own, not the host's
_ENVIRONMENT: Final = {
    "PATH": "/opt/python/bin:/usr/bin:/bin",
    "LD_LIBRARY_PATH": "/opt/python/lib",
    "HOME": _TMP,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": f"{_TMP}/matplotlib",
    # One thread: a container has about one CPU.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class BubblewrapBox(msgspec.Struct, frozen=True):
    """A container that bubblewrap holds."""

    box: Box
    process: asyncio.subprocess.Process
    group: ControlGroup
    pipes: HostEnd

    async def end(self) -> bool:
        """Kill everything in it; return whether nothing is left, so that its user is free."""
        is_gone = await asyncio.to_thread(self.group.end, self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.pipes.close()
        await self.process.wait()
        return is_gone


class Bubblewrap:
    """`image` is a folder with a Python in `bin`; root is needed for users and control groups."""

    name = "bubblewrap"
    isolation = "namespaces"

    def __init__(self, image: Path, groups: ControlGroups) -> None:
        self.image = image
        self._groups = groups

    def problem(self) -> str:
        """Return why containers cannot be held here, empty if they can."""
        return self.host_problem() or self.image_problem()

    def host_problem(self) -> str:
        """Return why this machine cannot hold containers of any image, empty if it can."""
        for program in ("bwrap", "prlimit", "setpriv"):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        if os.geteuid() != 0:
            return "containers need users of their own, and that needs root"
        try:
            seccomp_filter(platform.machine())
        except KeyError:
            return f"there is no list of system calls for {platform.machine()}"
        return self._groups.problem() or _namespaces_problem()

    def image_problem(self) -> str:
        """Return why containers cannot have this image, empty if they can."""
        if not (self.image / "bin" / "python3").exists():
            return f"there is no Python in {self.image}"
        folder = self.image.resolve()
        shut = [each for each in (folder, *folder.parents) if not each.stat().st_mode & 0o001]
        return f"users of containers cannot enter {shut[-1]}" if shut else ""

    async def start(self, spec: BoxSpec) -> BubblewrapBox:
        """Start a container and wait for its kernel; raise BoxLost if that does not come."""
        group = self._groups.make(spec.name, spec.limits)
        with Complaints() as complaints:
            try:
                async with open_kernel_pipes() as (pipes, ends):
                    process = await self._spawn(spec, group, (ends, complaints.writing))
            except BaseException:
                await asyncio.to_thread(group.end)
                raise
            complaints.close_writing()
            started = BubblewrapBox(
                Box(pipes.reader, pipes.requests, spec.bounds), process, group, pipes
            )
            await wait_ready(started, complaints)
            return started

    def clear(self) -> None:
        """End what an earlier process of ours has left."""
        self._groups.clear()

    async def _spawn(
        self, spec: BoxSpec, group: ControlGroup, to: tuple[KernelEnd, int]
    ) -> asyncio.subprocess.Process:
        ends, complaints = to
        # Read here: the container's user may not be able to read where we are installed.
        with _KERNEL.open("rb") as kernel, _held(seccomp_filter(platform.machine())) as calls:
            descriptors = (kernel.fileno(), calls)
            return await asyncio.create_subprocess_exec(
                *("sh", "-c", _ENTER, "sh", *self._command(spec, *descriptors)),
                stdin=ends.requests,
                stdout=ends.events,
                stderr=complaints,
                env={"PATH": os.defpath, "ENTRIES": " ".join(map(str, group.entries))},
                pass_fds=descriptors,
                start_new_session=True,
            )

    def _command(self, spec: BoxSpec, kernel: int, calls: int) -> list[str]:
        # No core file, and at exactly 1 the host's own handler of crashes is not called either.
        bounds = ("prlimit", "--core=1:1", "--nofile=1024:1024", "--sigpending=1024:1024")
        user = ("setpriv", f"--reuid={spec.uid}", f"--regid={spec.uid}", "--clear-groups")
        apart = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
        links = [
            word
            for name in ("bin", "lib", "lib64", "sbin")
            if Path(f"/usr/{name}").exists()
            for word in ("--symlink", f"usr/{name}", f"/{name}")
        ]
        variables = [
            word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)
        ]
        return [
            *(*bounds, *user, "--no-new-privs", "bwrap", *apart, "--clearenv", *variables),
            *("--ro-bind", "/usr", "/usr", *links),
            *("--ro-bind", str(self.image.resolve()), "/opt/python"),
            *("--ro-bind-data", str(kernel), "/opt/kernel.py"),
            *("--proc", "/proc", "--dev", "/dev"),
            # No terminals: Linux has a number of them for all containers together.
            *("--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"),
            # Semaphores of processes are files there.
            *("--size", str(_SHARED_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - the container's
            *("--size", str(_TMP_BYTES), "--tmpfs", _TMP),
            *("--size", str(spec.data_bytes), "--tmpfs", "/mnt/data"),
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--hostname", "container", "--seccomp", str(calls)),
            *("/opt/python/bin/python3", "-I", "/opt/kernel.py", str(spec.limits.memory_bytes)),
        ]


def _namespaces_problem() -> str:
    """Return why an ordinary user cannot make namespaces here, empty if it can."""
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    command = (*nobody, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
    try:
        tried = subprocess.run(  # noqa: S603 - these words are all our own
            command, capture_output=True, text=True, check=False, timeout=START_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "namespaces cannot be made: bwrap does not end"
    return "" if tried.returncode == 0 else f"namespaces cannot be made: {tried.stderr.strip()}"


@contextlib.contextmanager
def _held(data: bytes) -> Iterator[int]:
    """A descriptor from which a child can read some bytes, fewer than a pipe's buffer holds."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)
