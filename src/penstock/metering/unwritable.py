"""Saves rows that Postgres refuses to a file for an operator, so that no usage is lost."""

import logging
from pathlib import Path
from typing import Final

from penstock.metering.journal_reader import Row

FILE: Final = "unwritable.tsv"

logger = logging.getLogger(__name__)


def put_aside(folder: Path, row: Row, refused: Exception) -> None:
    """Append the row, in COPY format, to `unwritable.tsv` beside the journals, and log an error."""
    with (folder / FILE).open("ab") as file:
        file.write(row)
    request = row[:36].decode("ascii", "replace")
    fields = {"action": "row_unwritable", "request": request, "reason": repr(refused)}
    logger.error("usage could not be written", extra=fields)
