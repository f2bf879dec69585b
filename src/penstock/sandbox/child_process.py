"""Runs kernels as plain child processes, for development where there is no bubblewrap.

It holds nothing back: code has this process's user, its files and its network. Only the sizes of
memory, files and open descriptors are bounded, each for one process.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from penstock.sandbox.box import Box
from penstock.sandbox.driver import BoxSpec, wait_ready
from penstock.sandbox.kernel_pipes import Complaints, HostEnd, open_kernel_pipes

_KERNEL: Final = Path(__file__).with_name("kernel_program.py")
_BOUNDED: Final = """
import os, resource, sys
for name, most in (("CORE", 0), ("NOFILE", 1024), ("FSIZE", int(sys.argv[1]))):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
os.execv(sys.executable, [sys.executable, "-I", *sys.argv[2:]])
"""


class ChildBox(msgspec.Struct, frozen=True):
    """A kernel that is a child of ours."""

    box: Box
    process: asyncio.subprocess.Process
    pipes: HostEnd
    folder: Path

    async def end(self) -> bool:
        """Kill its processes and remove its files; processes with sessions of their own stay."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.pipes.close()
        await self.process.wait()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
        return True


class ChildProcess:
    """Starts kernels by this Python; /mnt/data is a temporary folder with another name."""

    name = "process"
    isolation = "none"

    def problem(self) -> str:
        """Return that nothing is missing: nothing is promised."""
        return ""

    def clear(self) -> None:
        """Do nothing: a kernel ends when it cannot read from its host."""

    async def start(self, spec: BoxSpec) -> ChildBox:
        """Start a kernel and wait for it; raise BoxLost if it does not come."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="penstock-sandbox-"))
        # What libraries keep at home is no file of the container.
        data, home = folder / "data", folder / "home"
        for each in (data, home):
            each.mkdir()
        kernel = (str(_KERNEL), str(spec.limits.memory_bytes), str(data))
        with Complaints() as complaints:
            try:
                async with open_kernel_pipes() as (pipes, ends):
                    process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-I", "-c", _BOUNDED, str(spec.data_bytes), *kernel),
                        stdin=ends.requests,
                        stdout=ends.events,
                        stderr=complaints.writing,
                        env={"PATH": os.defpath, "MPLBACKEND": "Agg", "HOME": str(home)},
                        start_new_session=True,
                    )
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                raise
            complaints.close_writing()
            started = ChildBox(
                Box(pipes.reader, pipes.requests, spec.bounds), process, pipes, folder
            )
            await wait_ready(started, complaints)
            return started
