"""Weights from Hugging Face. Only this file and `hub_download` import its library."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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


class HubSource:
    """`owner/name@revision`. A process of its own downloads, because the library cannot be stopped.

    The library keeps whole files and begins those that were cut anew.
    """

    def __init__(self, name: str) -> None:
        self._repository, _, self._revision = name.partition("@")
        self._commit = self._revision

    def list(self, files_max: int) -> Sequence[SourceFile]:
        """Return the files of the revision, as it is now."""
        process = self._start("list", self._repository, self._revision, str(files_max))
        try:
            out, why = process.communicate(timeout=_LIST_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise FetchFailed(f"{self._repository} was not listed in time") from None
        finally:
            process.kill()
        if process.returncode:
            raise FetchFailed(_reason(self._repository, why))
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
        process = self._start("download", self._repository, self._commit, str(folder))
        try:
            while process.poll() is None:
                watch.on_bytes(min(total, bytes_in(folder)), total)
                if watch.is_stopped():
                    raise FetchStopped
                time.sleep(_LOOK_SECONDS)
        finally:
            process.kill()
            _, why = process.communicate()
        if process.returncode:
            raise FetchFailed(_reason(self._repository, why))

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        if importlib.util.find_spec("huggingface_hub") is None:
            raise FetchFailed(
                "Hugging Face's library is not installed here: install penstock-inference with its"
                " extra `huggingface`"
            )
        program = [sys.executable, "-P", "-m", "penstock.fleet.weights.hub_download", *arguments]
        return subprocess.Popen(  # noqa: S603 - our own program, with names that were checked
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C stops the command, which then stops the download.
            start_new_session=True,
        )


def _reason(repository: str, why: str) -> str:
    lines = [line.strip() for line in why.splitlines() if line.strip()] or ["no reason was given"]
    return f"{repository} cannot be fetched from Hugging Face: {lines[-1][:_WHY_CHARACTERS_MAX]}"
