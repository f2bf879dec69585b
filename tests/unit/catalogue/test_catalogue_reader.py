"""The catalogue is read again when a file of it changed, and only then."""

import os
from pathlib import Path

import pytest

from penstock.catalogue import CatalogueError, CatalogueReader, CatalogueSettings
from penstock.errors import UnknownModel

ENTRY = (
    'id = "{name}"\nfamily = "native"\ncontext_tokens = 8192\n'
    '[recipe]\ncommand = ["vllm", "serve", "x", "--port", "{{port}}"]\n'
)


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    path = tmp_path / "one.toml"
    path.write_text(ENTRY.format(name="acme/one"))
    return path


def reader_of(entry: Path) -> CatalogueReader:
    return CatalogueReader(CatalogueSettings(folder=str(entry.parent)))


def test_unchanged_files_are_not_read_again(entry: Path) -> None:
    reader = reader_of(entry)
    assert reader.read() is reader.read()


def test_a_file_that_was_written_again_is_read_again(entry: Path) -> None:
    reader = reader_of(entry)
    reader.read()
    before = entry.stat()
    entry.write_text(ENTRY.format(name="acme/two"))
    # Of the same length and within the clock's smallest step: only its time differs, by a little.
    os.utime(entry, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert reader.read().find("acme/two").id == "acme/two"


def test_a_file_that_came_and_one_that_went_are_seen(entry: Path) -> None:
    reader = reader_of(entry)
    reader.read()
    other = entry.with_name("two.toml")
    other.write_text(ENTRY.format(name="acme/two"))
    assert reader.read().find("acme/two").id == "acme/two"
    other.unlink()
    with pytest.raises(UnknownModel):
        reader.read().find("acme/two")


def test_a_wrong_entry_is_told_until_it_is_mended(entry: Path) -> None:
    reader = reader_of(entry)
    reader.read()
    entry.write_text("id = 7")
    for _ in range(2):
        with pytest.raises(CatalogueError):
            reader.read()
    entry.write_text(ENTRY.format(name="acme/one again"))
    with pytest.raises(CatalogueError):
        reader.read()
    entry.write_text(ENTRY.format(name="acme/one"))
    assert reader.read().find("acme/one").id == "acme/one"


def test_a_folder_that_is_gone_is_told(entry: Path) -> None:
    reader = reader_of(entry)
    reader.read()
    entry.unlink()
    entry.parent.rmdir()
    with pytest.raises(CatalogueError, match="is not a folder"):
        reader.read()
