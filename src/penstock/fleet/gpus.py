"""Tells which GPUs this host has for its keeper: those of NVIDIA's library, or of the settings."""

import re
from pathlib import Path
from typing import Final, Literal

from penstock.fleet.gpu_use import Gpus
from penstock.records.host import Gpu

_DEVICE: Final = re.compile(r"nvidia(\d+)")


class HostGpus:
    """The GPUs that replicas of this host may get. All methods block: call them in a thread."""

    def __init__(
        self,
        wanted: int | tuple[str, ...] | Literal["auto"],
        library: Gpus | None = None,
        devices: Path = Path("/dev"),
    ) -> None:
        """Take the first `wanted`, or those with these UUIDs or indices; "auto" takes all."""
        self._wanted = wanted
        self._library = library
        self._devices = devices

    def read(self) -> tuple[Gpu, ...]:
        """Return the GPUs with their present use, where that is known."""
        found = self._found()
        if self._wanted == "auto":
            return found
        if isinstance(self._wanted, int):
            return tuple(_nth(found, str(index), index) for index in range(self._wanted))
        return tuple(_nth(found, id, index) for index, id in enumerate(self._wanted))

    def driver(self) -> str:
        """Return the version of the driver; "" if there is none."""
        return self._nvml().driver

    def _found(self) -> tuple[Gpu, ...]:
        library = self._nvml()
        if library.is_installed:
            return library.list()
        # The library is optional. Without it nobody knows what other programs use.
        names = (_DEVICE.fullmatch(entry.name) for entry in self._devices.iterdir())
        indices = sorted(int(name[1]) for name in names if name is not None)
        return tuple(Gpu(index, str(index)) for index in indices)

    def _nvml(self) -> Gpus:
        if self._library is None:
            self._library = Gpus()
        return self._library


def _nth(found: tuple[Gpu, ...], id: str, index: int) -> Gpu:
    """Return the GPU with this UUID or index; one of which nothing else is known if need be."""
    known = [gpu for gpu in found if id in (gpu.id, str(gpu.index))]
    return known[0] if known else Gpu(int(id) if id.isdigit() else index, id)
