"""Saves rows that Postgres refuses to files for an operator, so that nothing is lost."""

import logging
from pathlib import Path
from typing import Final

from penstock.metering.journal_reader import JournalRows

FILE: Final = "unwritable.tsv"
DECISIONS_FILE: Final = "unwritable-decisions.tsv"

logger = logging.getLogger(__name__)


def put_aside(folder: Path, rows: JournalRows, refused: Exception) -> None:
    """Append rows, in COPY format, to a file beside the journals, and log an error for each."""
    for name, lines in ((FILE, rows.attempts), (DECISIONS_FILE, rows.decisions)):
        for line in lines:
            with (folder / name).open("ab") as file:
                file.write(line)
            fields = {"action": "row_unwritable", "file": name, "reason": repr(refused)}
            if name == FILE:
                fields["request"] = line[:36].decode("ascii", "replace")
            logger.error("row could not be written", extra=fields)
