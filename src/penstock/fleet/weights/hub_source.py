"""Weights from Hugging Face. Only the process that it starts, `hub_download`, has its library."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from penstock.fleet.weights.weight_files import (
    FetchFailed,
    FetchStopped,
    FetchWatch,
)
from penstock.fleet.weights.weight_folder import HUB_FOLDER, bytes_in
from penstock.records.source_file import SourceFile

_LOOK_SECONDS: Final = 0.5
_LIST_SECONDS_MAX: Final = 120.0
_WHY_CHARACTERS_MAX: Final = 300
_WHY_BYTES_MAX: Final = 8192


class HubSource:
    """`owner/name@revision`. A process of its own downloads, because the library cannot be stopped.

    The library keeps whole files and begins those that were cut anew.
    """

    def __init__(self, name: str) -> None:
        self._repository, _, self._revision = name.partition("@")
        self._commit = self._revision

    def list(self, files_max: int) -> Sequence[SourceFile]:
        """Return the files of the revision, as it is now."""
        arguments = ("list", self._repository, self._revision, str(files_max))
        with (
            tempfile.TemporaryFile() as log,
            self._start(arguments, subprocess.PIPE, log) as process,
        ):
            try:
                out, _ = process.communicate(timeout=_LIST_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise FetchFailed(f"{self._repository} was not listed in time") from None
            finally:
                process.kill()
            if process.returncode:
                raise FetchFailed(_reason(self._repository, log))
        listed = json.loads(out)
        # What is listed is downloaded, even if the branch moves meanwhile.
        self._commit = listed["commit"]
        return [SourceFile(name, size) for name, size in listed["files"]]

    def bring(self, files: Sequence[SourceFile], folder: Path, watch: FetchWatch) -> None:
        """Download the files that are missing; the library checks each."""
        total = sum(each.size for each in files)
        for part in (folder / HUB_FOLDER).rglob("*.incomplete"):
            # The library never uses a part of a killed process again, nor removes it.
            part.unlink()
        arguments = ("download", self._repository, self._commit, str(folder))
        # The library logs every retry. A pipe that nobody reads meanwhile would fill and block it.
        with (
            tempfile.TemporaryFile() as log,
            self._start(arguments, subprocess.DEVNULL, log) as process,
        ):
            try:
                while process.poll() is None:
                    watch.on_bytes(min(total, bytes_in(folder)), total)
                    if watch.is_stopped():
                        raise FetchStopped
                    time.sleep(_LOOK_SECONDS)
            finally:
                process.kill()
            if process.returncode:
                raise FetchFailed(_reason(self._repository, log))

    def _start(self, arguments: Sequence[str], out: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
        if importlib.util.find_spec("huggingface_hub") is None:
            raise FetchFailed(
                "Hugging Face's library is not installed here: install penstock-inference with its"
                " extra `huggingface`"
            )
        module = "penstock.fleet.weights.hub_download"
        program = [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments]
        return subprocess.Popen(  # noqa: S603 - our own program, with names that were checked
            program,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            # Ctrl-C stops the command, which then stops the download.
            start_new_session=True,
        )


def _reason(repository: str, log: IO[bytes]) -> str:
    """Return the last line that a process which has ended wrote to its log."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - _WHY_BYTES_MAX))
    why = log.read().decode(errors="replace")
    lines = [line.strip() for line in why.splitlines() if line.strip()] or ["no reason was given"]
    return f"{repository} cannot be fetched from Hugging Face: {lines[-1][:_WHY_CHARACTERS_MAX]}"
