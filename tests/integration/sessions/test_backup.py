"""A cell is put back from a copy of its database, its objects and its key."""

import shutil
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import GatewayProcess, Settings
from tests.integration.cells.stored_cell import STORING, V1, answered, ask

from penstock.store.sealing import new_cell_key


def copied_database(dsn: str) -> str:
    """What `pg_dump` and `pg_restore` would make of it."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as server:
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        copy, original = sql.Identifier(f"{name}_copy"), sql.Identifier(name)
        server.execute(sql.SQL("create database {} template {}").format(copy, original))
    return make_conninfo(dsn, dbname=f"{name}_copy")


def restored(cell: Cell, folder: Path, key_file: Path) -> GatewayProcess:
    """A gateway elsewhere, on the copies."""
    shutil.copytree(cell.journal.parent / "penstock-state" / "objects", folder / "objects")
    catalogue = shutil.copytree(cell.journal.parent / "catalogue", folder / "catalogue")
    settings: Settings = {
        **STORING,
        "store.dsn": copied_database(cell.dsn),
        "store.objects_url": f"file:{folder / 'objects'}",
        "store.cell_key_file": str(key_file),
        "catalogue.folder": str(catalogue),
        "metering.journal_folder": str(folder / "journal"),
    }
    return GatewayProcess(folder, settings)


def test_cell_is_put_back_with_its_key_and_not_without(cells: CellFactory, tmp_path: Path) -> None:
    with cells.open(STORING) as cell:
        cell.set_up(CHAT)
        kept = [answered(cell, ask(text=text)) for text in ("short", "a long text " * 8000)]
        talk = cell.post("/v1/conversations", {"items": [{"role": "user", "content": "x"}]})
        cell.gateway.stop()
        key = Path(shutil.copy(cell.key_file, tmp_path / "cell.key"))
        elsewhere = restored(cell, tmp_path, key)
        with elsewhere:
            for response in kept:
                url = f"{elsewhere.url}{V1}/{response['id']}"
                found = cell.client.get(url, headers=cell.authorization())
                assert found.json() == response
                items = cell.client.get(f"{url}/input_items", headers=cell.authorization())
                assert items.status_code == 200
            url = f"{elsewhere.url}/v1/conversations/{talk.json()['id']}/items"
            assert len(cell.client.get(url, headers=cell.authorization()).json()["data"]) == 1
        key.write_text(new_cell_key())
        with pytest.raises(RuntimeError, match="is not the key of this cell"), elsewhere:
            pass
