"""Reads a room's SQL statements: a `.sql` file has several, each below a `-- name:` line."""

from importlib.resources import files
from typing import LiteralString


def read_queries(package: str, file: str) -> dict[str, LiteralString]:
    """Return a packaged file's statements by name; they are as trusted as literals in code.

    `{name}` in a statement is replaced by the earlier statement of that name.
    """
    text = (files(package) / file).read_text()
    found: dict[str, LiteralString] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        for known, meant in found.items():
            statement = statement.replace(f"{{{known}}}", meant)
        found[name] = statement
    return found
