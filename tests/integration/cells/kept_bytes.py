"""Everything that a thief of a cell's disks would have: its database and its folders."""

from pathlib import Path

import psycopg
from psycopg import sql


def find_in_database(dsn: str, marker: bytes) -> list[str]:
    """Return the tables with a row that has these bytes, as text or as bytes."""
    found = []
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = 'public'"
        ).fetchall()
        assert len(tables) > 20
        for (table,) in tables:
            query = sql.SQL("copy (select * from {}) to stdout").format(sql.Identifier(table))
            with connection.cursor().copy(query) as rows:
                dump = b"".join(map(bytes, rows))
            # As text, and as Postgres writes bytes.
            if marker in dump or marker.hex().encode() in dump:
                found.append(table)
    return found


def find_in_folder(folder: Path, marker: bytes, *, without: str) -> list[Path]:
    """Return the files that have these bytes; `without` names the only file a thief has not."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != without]
    assert files
    return [path for path in files if marker in path.read_bytes()]
