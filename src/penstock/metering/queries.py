"""The statements of ledger.sql by name. `{name}` in one of them stands for another, told before."""

from importlib.resources import files
from typing import Final, LiteralString


def _read() -> dict[str, LiteralString]:
    # Our own file, as literal as a string in this one.
    text = (files("penstock.metering") / "ledger.sql").read_text()
    found: dict[str, LiteralString] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        for known, meant in found.items():
            statement = statement.replace(f"{{{known}}}", meant)
        found[name] = statement
    return found


QUERIES: Final = _read()
