"""Marks a journal folder as one cell's, so that no other cell drains it into its own ledger."""

import os
from pathlib import Path
from typing import Final

_MARK: Final = "cell"


class ForeignJournals(Exception):
    """The journal folder belongs to another installation."""


def claim_folder(folder: Path, mark: str) -> None:
    """Mark the folder as this cell's; raise ForeignJournals if another cell has marked it."""
    path = folder / _MARK
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        if path.read_text() not in ("", mark):
            raise ForeignJournals(
                f"{folder} holds journals of another installation (another Postgres). Set"
                " metering.journal_folder to a folder of its own; the other one's gateways drain"
                " what is there."
            ) from None
        if path.stat().st_size:
            return
        descriptor = os.open(path, os.O_WRONLY)
    with os.fdopen(descriptor, "w") as file:
        file.write(mark)
