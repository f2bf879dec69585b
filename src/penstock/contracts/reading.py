"""Reads a contract's file, or a folder of them. Errors name the file, the key, and what to write.

What needs the catalogue, such as whether a model exists, is checked by `compiling.py`.
"""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.catalogue.bounded_text import read_bounded_text
from penstock.contracts.advice import explain
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import Contract
from penstock.contracts.settings import ContractsSettings

_LINES: Final = (
    'Write `key = value` lines; text in double quotes, lists as ["a", "b"]. A table stands once: in'
    " braces on one line, or line by line under its name, [tools]"
)
# Cases lie in a folder below.
_SUFFIX: Final = "*.toml"


def read_contract(text: str, file: str = "") -> Contract:
    """Return the contract in `text`."""
    try:
        document = _parsed(text)
        try:
            return msgspec.convert(document, Contract)
        except msgspec.ValidationError as error:
            raise explain(str(error), document) from None
    except ContractError as error:
        raise error.in_file(file) from None


def read_folder(folder: Path, settings: ContractsSettings) -> dict[str, str]:
    """Return the texts of a folder's contracts by their files, in the order of these names."""
    if not folder.is_dir():
        raise ContractError(
            "is not a folder", advice="Name the folder that has the contracts", file=str(folder)
        )
    # Editors and mounted volumes leave files with a leading dot.
    paths = sorted(path for path in folder.glob(_SUFFIX) if not path.name.startswith("."))
    if not paths:
        raise ContractError(
            "has no contract",
            advice="Write one: `penstock contracts example coding-agent` prints a start",
            file=str(folder),
        )
    if len(paths) > settings.contracts_max:
        raise ContractError(
            f"has {len(paths)} contracts, more than contracts.contracts_max",
            advice=f"Take some out, or set contracts_max under [contracts] to {len(paths)}",
            file=str(folder),
        )
    return {str(path): _text_of(path, settings.document_bytes_max) for path in paths}


def _text_of(path: Path, bytes_max: int) -> str:
    return read_bounded_text(
        path,
        bytes_max,
        ContractError,
        if_larger="Write one contract per file, or raise document_bytes_max under [contracts]",
    )


def _parsed(text: str) -> dict[str, Any]:
    try:
        # Dollars are exact.
        return tomllib.loads(text, parse_float=Decimal)
    # Numbers with thousands of digits raise ValueError; very deep nesting raises RecursionError.
    except (ValueError, RecursionError) as error:
        raise ContractError(f"this is not TOML: {error}", advice=_LINES) from None
