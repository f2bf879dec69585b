"""Reads the room's statements: each `.sql` file holds several, each under a `-- name:` line."""

from importlib.resources import files
from typing import LiteralString


def read_queries(file: str) -> dict[str, LiteralString]:
    """The statements of one of our own files, as literal as strings in the code."""
    text = (files("penstock.queue") / file).read_text()
    parts = (part.partition("\n") for part in text.split("-- name: ")[1:])
    return {name: statement for name, _, statement in parts}
