"""The GPUs that a host has: told by the library, by device files, or by the settings."""

import sys
from pathlib import Path

import pytest
from tests.unit.fleet.nvml_double import nvml

from penstock.fleet.gpu_use import Gpus
from penstock.fleet.gpus import HostGpus
from penstock.records.host import Gpu

_ABSENT = "no_such_library_of_nvidia"
_FIRST = Gpu(0, "GPU-uuid-0", "NVIDIA H200", 80 * 1024, 3 * 1024)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Two GPUs, of which the second does not answer."""
    monkeypatch.setitem(sys.modules, "nvml_double", nvml(has_driver=True))
    return Gpus("nvml_double")


def test_the_library_tells_those_that_answer(library: Gpus) -> None:
    host = HostGpus("auto", library)
    assert host.read() == (_FIRST,)
    assert host.driver() == "570.86"


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "nvml_double", nvml(has_driver=False))
    (tmp_path / "nvidia0").touch()
    host = HostGpus("auto", Gpus("nvml_double"), tmp_path)
    assert (host.read(), host.driver()) == ((), "")


def test_without_the_library_the_device_files_tell(tmp_path: Path) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert HostGpus("auto", Gpus(_ABSENT), tmp_path).read() == (Gpu(2, "2"), Gpu(10, "10"))


def test_a_number_in_the_settings_is_so_many_gpus(library: Gpus, tmp_path: Path) -> None:
    assert HostGpus(2, Gpus(_ABSENT), tmp_path).read() == (Gpu(0, "0"), Gpu(1, "1"))
    assert HostGpus(0, library).read() == ()
    # What the library knows of them is told too.
    assert HostGpus(2, library).read() == (_FIRST, Gpu(1, "1"))


def test_a_list_in_the_settings_names_them(library: Gpus, tmp_path: Path) -> None:
    named = HostGpus(("GPU-uuid-0",), library)
    assert named.read() == (_FIRST,)
    unknown = HostGpus(("GPU-a", "5"), Gpus(_ABSENT), tmp_path)
    assert unknown.read() == (Gpu(0, "GPU-a"), Gpu(5, "5"))
