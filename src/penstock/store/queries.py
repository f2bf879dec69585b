"""Reads a room's statements: a `.sql` file holds several, each under a `-- name:` line."""

from importlib.resources import files
from typing import LiteralString


def read_queries(package: str, file: str) -> dict[str, LiteralString]:
    """The statements of one of our own files, as literal as strings in the code.

    `{name}` in one of them stands for another, told before it.
    """
    text = (files(package) / file).read_text()
    found: dict[str, LiteralString] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        for known, meant in found.items():
            statement = statement.replace(f"{{{known}}}", meant)
        found[name] = statement
    return found
