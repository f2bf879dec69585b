"""GPUs are read where NVIDIA's library and a driver are; elsewhere there is nothing to tell."""

import logging
import sys

import pytest
from tests.unit.fleet.nvml_double import nvml

from penstock.fleet.gpu_use import Gpus


def test_without_the_library_there_is_nothing_and_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert Gpus("no_such_library_of_nvidia").read() == ()
    assert caplog.records == []


def test_without_a_driver_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvml_double", nvml(has_driver=False))
    assert Gpus("nvml_double").read() == ()


def test_each_gpu_that_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvml_double", nvml(has_driver=True))
    (gpu,) = Gpus("nvml_double").read()
    assert (gpu.gpu, gpu.use, gpu.memory_used_bytes) == ("0", 0.75, 3 * 2**30)
