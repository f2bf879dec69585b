"""fetch: files of two versions of a source never end in one folder."""

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.fleet.weight_sources import MEGABYTE, Counting, Fixed, Watch, bring, contents

from penstock.fleet.weights.copied_source import CopiedSource
from penstock.fleet.weights.folder_files import FolderFiles
from penstock.fleet.weights.weight_files import FetchFailed, FetchStopped
from penstock.records.source_file import SourceFile


def test_a_part_of_an_earlier_version_is_not_continued(origin: Path, target: Path) -> None:
    with pytest.raises(FetchStopped):
        bring(CopiedSource(FolderFiles(origin)), target, Watch(stop_at=12 * MEGABYTE))
    (origin / "model-1.safetensors").write_bytes(os.urandom(20 * MEGABYTE))
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target) == contents(origin)
    assert not list(target.rglob(".*-part")), "what is left of the earlier version is removed"


def test_whole_files_of_an_earlier_version_are_not_kept(origin: Path, target: Path) -> None:
    with pytest.raises(FetchStopped):
        bring(CopiedSource(FolderFiles(origin)), target, Watch(stop_at=21 * MEGABYTE))
    assert "model-1.safetensors" in contents(target)
    (origin / "model-1.safetensors").write_bytes(os.urandom(20 * MEGABYTE))
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target) == contents(origin)
    # The versions are known also of a folder that was complete.
    (origin / "model-2.safetensors").write_bytes(os.urandom(3 * MEGABYTE))
    (target / "tokenizer" / "vocabulary.json").unlink()
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target) == contents(origin)


def test_a_version_is_known_of_a_file_that_was_away_meanwhile(target: Path) -> None:
    def versions(**files: str) -> CopiedSource:
        return CopiedSource(Fixed(*(SourceFile(name, 5, files[name]) for name in files)))

    with pytest.raises(FetchStopped):
        bring(versions(a="1", b="1"), target, Watch(stop_at=5))
    (target / "a").write_bytes(b"first")
    with pytest.raises(FetchStopped):
        bring(versions(b="1"), target, Watch(stop_at=0))
    bring(versions(a="2", b="1"), target)
    assert contents(target) == {"a": bytes(5), "b": bytes(5)}


def test_files_that_an_operator_has_copied_are_kept(origin: Path, target: Path) -> None:
    shutil.copytree(origin, target)
    (target / "model-2.safetensors").unlink()
    files = Counting(origin)
    bring(CopiedSource(files), target)
    assert files.bytes_read == 3 * MEGABYTE
    assert contents(target) == contents(origin)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_changes_while_it_is_read_is_refused(
    origin: Path, target: Path, is_replaced: bool
) -> None:
    class Rewriting(Watch):
        def on_bytes(self, done: int, total: int) -> None:
            super().on_bytes(done, total)
            if done == 12 * MEGABYTE:
                fresh = origin / ("fresh" if is_replaced else "model-1.safetensors")
                fresh.write_bytes(os.urandom(20 * MEGABYTE))
                fresh.rename(origin / "model-1.safetensors")

    with pytest.raises(FetchFailed, match=r"model-1\.safetensors has changed since"):
        bring(CopiedSource(FolderFiles(origin)), target, Rewriting())
    assert not contents(target)
    assert not list(target.rglob(".*-part"))
    bring(CopiedSource(FolderFiles(origin)), target)
    assert contents(target) == contents(origin)
