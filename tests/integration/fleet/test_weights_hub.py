"""Weights from Hugging Face, by its own library, against a double of its server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.fleet.hub_double import HubDouble, hub_double
from tests.integration.fleet.stopping_watch import StoppingWatch

from penstock.fleet.weights.fetch import FetchLimits, fetch
from penstock.fleet.weights.open_source import open_source
from penstock.fleet.weights.weight_files import FetchFailed, FetchStopped
from penstock.fleet.weights.weight_folder import is_complete
from penstock.records.model import Weights
from penstock.store import StoreSettings

pytest.importorskip("huggingface_hub")

MEGABYTE = 2**20
FILES = {
    "config.json": b"{}",
    "model-1.safetensors": os.urandom(20 * MEGABYTE),
    "model-2.safetensors": os.urandom(40 * MEGABYTE),
    "nested/vocabulary.json": b"words",
}
TOTAL = sum(len(content) for content in FILES.values())
LIMITS = FetchLimits(files_max=10, spare_bytes=0)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubDouble]:
    with hub_double(FILES, held="model-2.safetensors") as double:
        monkeypatch.setenv("HF_ENDPOINT", double.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        yield double


def bring(source: str, target: Path, watch: StoppingWatch | None = None) -> None:
    opened = open_source(source, StoreSettings())
    fetch(Weights(source, 0.01), target, opened, LIMITS, watch or StoppingWatch(TOTAL))


def test_whole_files_of_a_fetch_that_was_cut_are_kept(hub: HubDouble, tmp_path: Path) -> None:
    target = tmp_path / "weights" / "name"
    with pytest.raises(FetchStopped):
        bring("hf:owner/name@v1", target, StoppingWatch(TOTAL, 40 * MEGABYTE))
    assert not is_complete(target, "hf:owner/name@v1")
    hub.may_finish.set()
    bring("hf:owner/name@v1", target)
    assert {name: (target / name).read_bytes() for name in FILES} == FILES
    assert is_complete(target, "hf:owner/name@v1")
    assert hub.revisions == ["v1", "v1"], "the commit that was listed is downloaded"
    assert hub.first_bytes["model-1.safetensors"] == [0]
    assert hub.first_bytes["model-2.safetensors"] == [0, 0]
    assert not list(target.rglob("*.incomplete")), "what the first download left is removed"


def test_a_download_ends_with_the_process_that_asked_for_it(hub: HubDouble, tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from penstock.fleet.weights.hub_source import HubSource\n"
        "class Watch:\n"
        "    def on_bytes(self, done, total): pass\n"
        "    def is_stopped(self): return False\n"
        "source = HubSource('owner/name')\n"
        f"source.bring(source.list(10), Path({str(tmp_path)!r}) / 'weights', Watch())\n"
    )
    keeper = subprocess.Popen([sys.executable, "-c", program])
    try:
        _until(lambda: "model-2.safetensors" in hub.first_bytes)
        assert not hub.cut
    finally:
        keeper.kill()
        keeper.wait(10)
    # Under load the other file may not be whole either.
    _until(lambda: hub.cut > 0)
    assert not hub.may_finish.is_set()


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("hf:owner/other", "RepositoryNotFoundError"),
        ("hf:owner/name@none", "RevisionNotFoundError"),
    ],
)
def test_what_is_not_there_is_named(hub: HubDouble, tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(FetchFailed, match=f"cannot be fetched from Hugging Face: {why}"):
        bring(source, tmp_path / "weights")
    assert not hub.first_bytes


def test_a_server_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchFailed, match="owner/name cannot be fetched from Hugging Face"):
        bring("hf:owner/name", tmp_path / "weights")
