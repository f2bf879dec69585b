"""What is used of NVIDIA's library, for machines without a GPU."""

from types import ModuleType, SimpleNamespace


class NvmlError(Exception):
    """As the library has one."""


def nvml(*, has_driver: bool) -> ModuleType:
    """What of the library is used, with two GPUs of which the second does not answer."""
    made = ModuleType("nvml_double")

    def init() -> None:
        if not has_driver:
            raise NvmlError("Driver Not Loaded")

    def memory(device: int) -> SimpleNamespace:
        if device == 1:
            raise NvmlError("GPU is lost")
        return SimpleNamespace(used=3 * 2**30, total=80 * 2**30)

    vars(made).update(
        NVMLError=NvmlError,
        nvmlInit=init,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetUUID=lambda device: f"GPU-uuid-{device}",
        nvmlDeviceGetName=lambda _: b"NVIDIA H200",
        nvmlSystemGetDriverVersion=lambda: "570.86",
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=75),
    )
    return made
