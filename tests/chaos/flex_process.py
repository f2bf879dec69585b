"""`penstock keeper` and `penstock control` as children that are killed and started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.process_tree import kill_tree
from tests.integration.cells.gateway_process import Settings

from penstock.config import environment_for

_STOP_SECONDS = 30.0


class PenstockProcess:
    """`arguments` follow `penstock`; `folder` takes its log and is where it runs."""

    def __init__(self, folder: Path, settings: Settings, *arguments: str) -> None:
        self.folder = folder
        self._settings = settings
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        # A program that becomes it may stand here, with arguments of its own.
        self.prefix: tuple[str, ...] = ()

    def start(self) -> None:
        """It ends with this process, should that be killed before it can end it."""
        command = [*self.prefix, sys.executable, "-m", "penstock", *self._arguments]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--parent-pid", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_for(self._settings),
                cwd=self.folder,
            )

    def kill(self) -> None:
        assert self._process is not None
        kill_tree(self._process.pid)
        self._process.wait(_STOP_SECONDS)

    def stall(self, seconds: float) -> None:
        """It does nothing for a while, and then goes on as if nothing had been."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """In order, or by force if it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def pid(self) -> int:
        """The process id; 0 if it does not run."""
        is_up = self._process is not None and self._process.poll() is None
        return self._process.pid if is_up and self._process is not None else 0

    @property
    def log_file(self) -> Path:
        return self.folder / "process.log"
