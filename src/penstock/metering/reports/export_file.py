"""Writes FOCUS rows to a Parquet or CSV file, by its suffix. Only this file imports pyarrow.

The file appears under its name only when it is complete; memory holds at most one row group.
"""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.clock import new_id
from penstock.errors import InvalidRequest
from penstock.metering.reports.focus import COLUMNS, Cell, Row

# Readers skip and decode whole groups; a smaller group costs more than the rows in it.
GROUP_ROWS: Final = 20_000


class RowFile(Protocol):
    """A file that takes rows in the order of COLUMNS."""

    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


@contextmanager
def opened_file(path: Path) -> Iterator[RowFile]:
    """Replace `path` by a new file if the block succeeds; otherwise change nothing."""
    kinds: dict[str, type[CsvFile | ParquetFile]] = {".parquet": ParquetFile, ".csv": CsvFile}
    kind = kinds.get(path.suffix)
    if kind is None:
        raise InvalidRequest(f"The file must end in {' or '.join(kinds)}.", param="out")
    unfinished = path.with_name(f".{path.name}.{new_id()}")
    try:
        file = kind(unfinished)
        try:
            yield file
        finally:
            file.close()
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


class CsvFile:
    """A line of titles, then a line for each row; null is empty."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(COLUMNS)

    def write(self, rows: Sequence[Row]) -> None:
        self._writer.writerows([_text(cell) for cell in row] for row in rows)

    def close(self) -> None:
        self._file.close()


class ParquetFile:
    """Row groups of at least GROUP_ROWS; costs are exact decimals."""

    def __init__(self, path: Path) -> None:
        self._rows: list[Row] = []
        self._arrow, parquet = _pyarrow()
        self._schema = self._arrow.schema(
            [(name, self._type(holds)) for name, holds in COLUMNS.items()]
        )
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        self._rows += rows
        if len(self._rows) >= GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                self._arrow.array(list(column), field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
            self._rows = []

    def _type(self, holds: str | int) -> Any:  # noqa: ANN401 - pyarrow ships no types
        if isinstance(holds, int):
            return self._arrow.decimal128(38, holds)
        return self._arrow.timestamp("us", tz="UTC") if holds == "time" else self._arrow.string()


def _pyarrow() -> tuple[Any, Any]:
    # Imported on first use, because pyarrow is optional and large.
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InvalidRequest(
            "Parquet needs pyarrow: pip install pyarrow. A file that ends in .csv needs nothing.",
            param="out",
        ) from None


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.strftime("%Y-%m-%dT%H:%M:%SZ")
    # Without an exponent, because spreadsheets differ in how they read one.
    return f"{cell:f}" if isinstance(cell, Decimal) else cell
