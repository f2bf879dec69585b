"""A row that Postgres refuses is put aside in a file, for people: usage is not thrown away."""

import logging
from pathlib import Path
from typing import Final

from penstock.metering.journal_reader import Row

FILE: Final = "unwritable.tsv"

logger = logging.getLogger(__name__)


def put_aside(folder: Path, row: Row, refused: Exception) -> None:
    """Append the row to `unwritable.tsv` beside the journals, as it would have been copied."""
    with (folder / FILE).open("ab") as file:
        file.write(row)
    request = row[:36].decode("ascii", "replace")
    fields = {"action": "row_unwritable", "request": request, "reason": repr(refused)}
    logger.error("usage could not be written", extra=fields)
