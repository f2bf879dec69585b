"""Weights out of a bucket, on a real S3 server."""

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_process import free_port
from tests.integration.cells.s3_server import BUCKET, s3_server
from tests.integration.fleet.stopping_watch import StoppingWatch

from penstock.errors import Conflict
from penstock.fleet.weights.fetch import FetchLimits, fetch
from penstock.fleet.weights.open_source import open_source
from penstock.fleet.weights.weight_files import FetchFailed, FetchStopped
from penstock.fleet.weights.weight_folder import bytes_in, is_complete
from penstock.records.model import Weights
from penstock.records.source_file import SourceFile
from penstock.store import StoreSettings
from penstock.store.bucket_files import BucketFiles

MEGABYTE = 2**20
FILES = {
    "config.json": b"{}",
    "model-1.safetensors": os.urandom(70 * MEGABYTE),
    "nested/vocabulary.json": os.urandom(3 * MEGABYTE),
}
TOTAL = sum(len(content) for content in FILES.values())
SOURCE = f"s3://{BUCKET}/models/kimi"
WEIGHTS = Weights(SOURCE, 0.01)
LIMITS = FetchLimits(files_max=10, spare_bytes=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSettings]:
    """The settings of a bucket with a model, one of another name, and folders' own objects."""
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        objects = {f"models/kimi/{name}": content for name, content in FILES.items()}
        objects |= {
            "models/kimi2/other": b"not wanted",
            "models/kimi/nested/": b"",
            "models/kimi/": b"",
        }
        for name, content in objects.items():
            _put(f"{address}/{BUCKET}/{name}", content)
        yield settings(address)


def _put(address: str, content: bytes) -> None:
    request = urllib.request.Request(address, content, method="PUT")
    urllib.request.urlopen(request, timeout=60).close()


def settings(address: str) -> StoreSettings:
    return StoreSettings(
        objects_endpoint=address,
        objects_access_key="any",
        objects_secret_key="any",
        objects_seconds=5,
    )


def test_a_bucket_is_fetched_and_resumed_in_the_middle_of_a_file(
    store: StoreSettings, tmp_path: Path
) -> None:
    target = tmp_path / "kimi"
    with pytest.raises(FetchStopped):
        fetch(
            WEIGHTS, target, open_source(SOURCE, store), LIMITS, StoppingWatch(TOTAL, 40 * MEGABYTE)
        )
    there = bytes_in(target)
    assert 40 * MEGABYTE <= there < TOTAL
    watch = StoppingWatch(TOTAL)
    fetch(WEIGHTS, target, open_source(SOURCE, store), LIMITS, watch)
    assert {name: (target / name).read_bytes() for name in FILES} == FILES
    assert is_complete(target, SOURCE)
    assert {path.name for path in target.iterdir() if not path.name.startswith(".")} == {
        "config.json",
        "model-1.safetensors",
        "nested",
    }
    assert min(done for done in watch.heard[1:]) > there, "it went on from where it was cut"


def test_an_object_that_changes_while_it_is_read_is_refused(
    store: StoreSettings, tmp_path: Path
) -> None:
    source = f"s3://{BUCKET}/models/moving"
    address = f"{store.objects_endpoint}/{BUCKET}/models/moving/model.safetensors"
    second = os.urandom(TOTAL)

    class Rewriting(StoppingWatch):
        def on_bytes(self, done: int, total: int) -> None:
            super().on_bytes(done, total)
            if done == 32 * MEGABYTE:
                _put(address, second)

    _put(address, os.urandom(TOTAL))
    weights, target = Weights(source, 0.01), tmp_path / "moving"
    with pytest.raises(FetchFailed, match=r"model\.safetensors has changed since"):
        fetch(weights, target, open_source(source, store), LIMITS, Rewriting(TOTAL))
    assert not list(target.rglob(".*-part"))
    fetch(weights, target, open_source(source, store), LIMITS, StoppingWatch(TOTAL))
    assert (target / "model.safetensors").read_bytes() == second


def test_a_version_that_is_no_tag_is_not_compared(store: StoreSettings) -> None:
    files = BucketFiles(store, SOURCE)
    for version in ("2026-01-01 00:00:00+00:00", 'W/"weak"', ""):
        assert b"".join(files.read(SourceFile("config.json", 2, version), 0, 2)) == b"{}"
    with pytest.raises(Conflict):
        b"".join(files.read(SourceFile("config.json", 2, '"other"'), 0, 2))


def test_a_bucket_without_such_files_says_so(store: StoreSettings, tmp_path: Path) -> None:
    source = f"s3://{BUCKET}/models/none"
    with pytest.raises(FetchFailed, match="the source has no files"):
        fetch(
            Weights(source, 1.0),
            tmp_path / "a",
            open_source(source, store),
            LIMITS,
            StoppingWatch(TOTAL),
        )


def test_more_files_than_allowed_are_refused(store: StoreSettings, tmp_path: Path) -> None:
    limits = FetchLimits(files_max=2, spare_bytes=0)
    with pytest.raises(FetchFailed, match="more than 2 files"):
        fetch(WEIGHTS, tmp_path / "a", open_source(SOURCE, store), limits, StoppingWatch(TOTAL))


def test_a_bucket_that_does_not_answer_is_named(tmp_path: Path) -> None:
    away = settings(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(FetchFailed, match="the source cannot be read: The object store"):
        fetch(WEIGHTS, tmp_path / "a", open_source(SOURCE, away), LIMITS, StoppingWatch(TOTAL))
