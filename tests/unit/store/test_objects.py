"""The folder that objects are kept in on one host."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.errors import InvalidRequest, NotFound, StoreUnavailable
from penstock.store import Objects, StoreSettings
from penstock.testing.clear_objects import clear_objects


@pytest.fixture
async def objects(tmp_path: Path) -> Objects:
    opened = clear_objects(
        StoreSettings(objects_url=f"file:{tmp_path}/objects", objects_piece_bytes=4096)
    )
    await opened.open()
    return opened


async def test_what_was_put_is_got(objects: Objects) -> None:
    await objects.put("account/job/hash", b"one")
    await objects.put("account/job/hash", b"two")
    assert await objects.get("account/job/hash") == b"two"


async def test_what_is_not_there_is_not_found(objects: Objects) -> None:
    with pytest.raises(NotFound):
        await objects.get("account/job/none")
    with pytest.raises(NotFound):
        await anext(objects.stream("account/job/none"))


async def test_a_stream_goes_in_and_out_in_pieces(objects: Objects) -> None:
    assert await objects.put_stream("a/b/c", _chunks(b"x" * 3000, b"", b"y" * 6000)) == 9000
    pieces = [piece async for piece in objects.stream("a/b/c")]
    assert b"".join(pieces) == b"x" * 3000 + b"y" * 6000
    assert max(len(piece) for piece in pieces) == 4096


async def test_an_empty_stream_is_an_empty_object(objects: Objects) -> None:
    assert await objects.put_stream("a/b/c", _chunks()) == 0
    assert [piece async for piece in objects.stream("a/b/c")] == []
    assert await objects.get("a/b/c") == b""


async def test_a_stream_that_breaks_leaves_nothing(objects: Objects, tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 6_000_000
        yield b"x" * 6_000_000
        raise InvalidRequest("no more")

    with pytest.raises(InvalidRequest, match="no more"):
        await objects.put_stream("a/b/c", broken())
    assert _files(tmp_path) == []


async def test_deleting_leaves_no_folder_and_bears_being_done_twice(
    objects: Objects, tmp_path: Path
) -> None:
    await objects.put("a/b/c", b"1")
    await objects.put("a/b/d", b"2")
    await objects.delete(["a/b/c", "a/b/d"])
    await objects.delete(["a/b/c"])
    assert list((tmp_path / "objects").iterdir()) == []


async def test_deleting_takes_what_a_killed_process_left(objects: Objects, tmp_path: Path) -> None:
    folder = tmp_path / "objects" / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "c#1").write_bytes(b"half")
    await objects.delete(["a/b/c"])
    assert _files(tmp_path) == []


async def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    objects = clear_objects(StoreSettings(objects_url=f"file:{tmp_path}/file/objects"))
    with pytest.raises(StoreUnavailable):
        await objects.open()


def test_a_folder_is_refused_when_there_is_a_second_host() -> None:
    folder = clear_objects(StoreSettings(objects_url="file:objects"))
    folder.check_hosts(1)
    with pytest.raises(InvalidRequest, match=r"store\.objects_url"):
        folder.check_hosts(2)
    clear_objects(StoreSettings(objects_url="s3://bucket/prefix")).check_hosts(2)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
