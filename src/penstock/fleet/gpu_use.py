"""Reads this host's GPU use through NVIDIA's library. The only module that uses that library.

Most gateway hosts, and every laptop, have neither the library nor a GPU: then it reports no GPUs
and raises no error.
"""

import importlib
import logging
from typing import Any, Final

from penstock.records.host import Gpu
from penstock.telemetry.keeper_metrics import GpuUse

# nvidia-ml-py; optional, because it is useful only where there is a driver.
_LIBRARY: Final = "pynvml"
_MB: Final = 2**20

_log = logging.getLogger(__name__)


class Gpus:
    """The host's GPUs. `read` may take some milliseconds: call it in a thread."""

    def __init__(self, library: str = _LIBRARY) -> None:
        self._nvml: Any = None
        self._devices: list[Any] = []
        self.is_installed = False
        self.driver = ""
        try:
            nvml = importlib.import_module(library)
        except ImportError:
            return
        self.is_installed = True
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
            self._devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            self.driver = _text(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError as failure:
            # The library is installed, but there is no driver.
            _log.info("no gpu is seen", extra={"action": "no_gpu", "reason": str(failure)})
            return
        self._nvml = nvml

    def read(self) -> tuple[GpuUse, ...]:
        """Return the current use of each GPU; a GPU that does not answer is left out."""
        found = []
        for index, device in enumerate(self._devices):
            try:
                memory = self._nvml.nvmlDeviceGetMemoryInfo(device)
                use = self._nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
            except self._nvml.NVMLError:
                continue
            found.append(GpuUse(str(index), use, int(memory.used), int(memory.total)))
        return tuple(found)

    def list(self) -> tuple[Gpu, ...]:
        """Return each GPU that answers, with what programs hold of its memory."""
        found = []
        for index, device in enumerate(self._devices):
            try:
                uuid = self._nvml.nvmlDeviceGetUUID(device)
                name = self._nvml.nvmlDeviceGetName(device)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(device)
            except self._nvml.NVMLError:
                continue
            total, used = int(memory.total) // _MB, int(memory.used) // _MB
            found.append(Gpu(index, _text(uuid), _text(name), total, used))
        return tuple(found)


def _text(value: str | bytes) -> str:
    # Bytes in older releases of the library.
    return value.decode() if isinstance(value, bytes) else value
