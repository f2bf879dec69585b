"""Data keys of accounts: made once, unreadable without the cell's key, gone when forgotten."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.cells.cell_key import key_file

from penstock.errors import InvalidRequest, StoreUnavailable
from penstock.records.account import AccountId
from penstock.store import Objects, Sealing, Store, StoreSettings
from penstock.store.sealing import forget_data_key
from penstock.testing import ManualClock

ACME, OTHER = AccountId("acme"), AccountId("other")


@pytest.fixture
def settings(tmp_path: Path) -> StoreSettings:
    return StoreSettings(
        cell_key_file=key_file(tmp_path), objects_url=f"file:{tmp_path / 'objects'}"
    )


async def test_every_process_has_the_same_key_of_an_account(
    store: Store, settings: StoreSettings
) -> None:
    seals = await asyncio.gather(
        *(Sealing(store, settings).of_account(ACME) for _ in range(8)),
    )
    value = seals[0].seal("row", b"content")
    assert {seal.unseal("row", value) for seal in seals} == {b"content"}
    assert await _count(store) == 1


async def test_accounts_cannot_read_each_other(store: Store, settings: StoreSettings) -> None:
    sealing = Sealing(store, settings)
    value = (await sealing.of_account(ACME)).seal("row", b"content")
    with pytest.raises(StoreUnavailable):
        (await sealing.of_account(OTHER)).unseal("row", value)


async def test_a_data_key_is_not_in_postgres_in_clear(
    store: Store, settings: StoreSettings, tmp_path: Path
) -> None:
    seal = await Sealing(store, settings).of_account(ACME)
    value = seal.seal("row", b"content")
    async with store.transaction() as tx:
        row = await tx.fetch_one("select wrapped from account_keys")
        marks = await tx.fetch("select mark from cell_key")
        # As if Postgres had another account's row under this one's name.
        await tx.execute(
            "insert into account_keys select %s, wrapped from account_keys", (str(OTHER),)
        )
    assert row is not None
    cell_key = bytes.fromhex((tmp_path / "cell.key").read_text())
    assert cell_key not in b"".join(bytes(each) for found in (row, *marks) for each in found)
    with pytest.raises(StoreUnavailable):
        await Sealing(store, settings).of_account(OTHER)
    assert seal.unseal("row", value) == b"content"


async def test_a_process_with_another_key_does_not_begin(
    store: Store, settings: StoreSettings, tmp_path: Path
) -> None:
    await Sealing(store, settings).open()
    another = StoreSettings(cell_key_file=key_file(tmp_path / "another"))
    with pytest.raises(InvalidRequest, match="not the key of this cell"):
        await Sealing(store, another).open()


async def test_callers_of_a_process_with_another_key_are_told_nothing_of_it(
    store: Store, settings: StoreSettings, tmp_path: Path
) -> None:
    """Postgres may have been away when it began, so that it did begin."""
    await Sealing(store, settings).open()
    another = StoreSettings(cell_key_file=key_file(tmp_path / "another"))
    with pytest.raises(StoreUnavailable) as refused:
        await Sealing(store, another).of_account(ACME)
    assert str(tmp_path) not in refused.value.message
    assert await _count(store) == 0


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (None, 0, "cannot be read"),
        ("", 0o600, "64 hex digits"),
        ("ab" * 31, 0o600, "64 hex digits"),
        ("xy" * 32, 0o600, "64 hex digits"),
        ("ab" * 32, 0o644, "chmod 600"),
        ("ab" * 32, 0o620, "chmod 600"),
    ],
)
async def test_an_unusable_key_file_is_refused_with_its_reason(
    store: Store, tmp_path: Path, text: str | None, mode: int, says: str
) -> None:
    path = tmp_path / "given.key"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(InvalidRequest, match=says):
        await Sealing(store, StoreSettings(cell_key_file=str(path))).open()


async def test_forgotten_content_cannot_be_read(store: Store, settings: StoreSettings) -> None:
    clock = ManualClock()
    sealing = Sealing(store, settings, clock)
    value = (await sealing.of_account(ACME)).seal("row", b"content")
    async with store.transaction() as tx:
        assert await forget_data_key(tx, ACME)
        assert not await forget_data_key(tx, OTHER)
    clock.advance(61)
    with pytest.raises(StoreUnavailable):
        (await sealing.of_account(ACME)).unseal("row", value)


async def test_without_a_key_content_is_kept_as_it_comes(store: Store) -> None:
    sealing = Sealing(store, StoreSettings())
    seal = await sealing.of_account(ACME)
    assert not sealing.is_on
    assert seal.unseal("row", seal.seal("row", b"content")) == b"content"
    assert await _count(store) == 0


async def test_objects_are_encrypted_and_those_from_before_stay_readable(
    store: Store, settings: StoreSettings, tmp_path: Path
) -> None:
    in_clear = Objects(
        StoreSettings(objects_url=settings.objects_url), Sealing(store, StoreSettings())
    )
    await in_clear.open()
    await in_clear.put("acme/job/old", b"an old marker")
    objects = Objects(settings, Sealing(store, settings))
    await objects.open()

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"a new marker" * 1000

    await objects.put("acme/job/new", b"a new marker")
    assert await objects.put_stream("acme/file/content", chunks()) == 40 * 12_000
    assert await objects.get("acme/job/new") == b"a new marker"
    assert await objects.get("acme/job/old") == b"an old marker"
    content = b"".join([piece async for piece in objects.stream("acme/file/content")])
    assert content == b"a new marker" * 40_000
    assert b"".join([piece async for piece in objects.stream("acme/job/old")]) == b"an old marker"
    kept = [path.read_bytes() for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert sum(b"a new marker" in each for each in kept) == 0
    assert len(kept) == 3


async def test_an_object_moved_to_another_name_does_not_open(
    store: Store, settings: StoreSettings, tmp_path: Path
) -> None:
    objects = Objects(settings, Sealing(store, settings))
    await objects.open()
    await objects.put("acme/job/one", b"content")
    (tmp_path / "objects/acme/job/one").rename(tmp_path / "objects/acme/job/two")
    with pytest.raises(StoreUnavailable, match="decrypted"):
        await objects.get("acme/job/two")


async def _count(store: Store) -> int:
    async with store.transaction() as tx:
        row = await tx.fetch_one("select count(*) from account_keys")
    assert row is not None
    return int(row[0])
