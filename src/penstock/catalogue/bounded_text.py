"""Reads a file that an operator wrote, bounded in size and as UTF-8."""

from pathlib import Path
from typing import TypeVar

from penstock.records.file_fault import FileFault

Fault = TypeVar("Fault", bound=FileFault)


def read_bounded_text(path: Path, bytes_max: int, kind: type[Fault], *, if_larger: str) -> str:
    """Return the file's text; raise OSError, or a fault of this kind that names the file.

    `if_larger` is the advice for a file of more than `bytes_max`.
    """
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise kind(f"is larger than {bytes_max} bytes", advice=if_larger, file=str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise kind(
            f"byte {error.start} is not UTF-8",
            advice="Save the file as UTF-8",
            file=str(path),
            line=data.count(b"\n", 0, error.start) + 1,
        ) from None
