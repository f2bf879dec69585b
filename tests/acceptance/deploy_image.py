"""The container image of this checkout, built once for the tests that run it.

Images are kept in the cache between runs: a build then takes seconds, and needs no network.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deploy.container.build import build
from deploy.container.builders import Buildah
from deploy.native.build import default_cache

TAG = "test"


def require_root() -> None:
    """Containers and namespaces of their own take root here, as CI has it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it starts containers")


class Image:
    """A built image in a storage of its own."""

    def __init__(self, name: str, builder: Buildah, storage: Path) -> None:
        self.name = name
        self.storage = storage
        self._builder = builder

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """Show the image's files in a folder for as long as the block lasts."""
        container = self._run("from", "--pull-never", self.name)
        try:
            yield Path(self._run("mount", container))
        finally:
            self._run("umount", container)
            self._run("rm", container)

    def save(self, archive: Path) -> str:
        """Write the image as a file for nodes of a cluster; return its name there."""
        name = f"localhost/{self.name}"
        archive.unlink(missing_ok=True)
        self._builder.save(name, archive)
        return name

    def _run(self, *words: str) -> str:
        command = [*self._builder.command, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def built_image() -> Image:
    """Build the image. Two test processes wait for each other."""
    storage = default_cache() / "image-storage"
    storage.mkdir(parents=True, exist_ok=True)
    builder = Buildah(storage)
    with storage.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Image(build(builder, tag=TAG), builder, storage)
