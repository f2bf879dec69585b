"""Reads a folder of contracts with the catalogue that this machine sees."""

from pathlib import Path

import typer

from penstock.catalogue import Catalogue
from penstock.cli.options import invocation
from penstock.cli.up.known_models import known_models
from penstock.contracts.compiling import ContractSet, check_texts, compile_contract
from penstock.contracts.document import Contract
from penstock.contracts.reading import read_folder


def folder_texts(context: typer.Context, folder: Path) -> dict[str, str]:
    """Return the texts of a folder's contracts, by their files."""
    return read_folder(folder, invocation(context).load().config.contracts)


def check_folder(context: typer.Context, folder: Path, state: Path) -> dict[str, Contract]:
    """Return a folder's contracts by their names; ContractError names what is wrong."""
    catalogue = known_models(invocation(context).load().config, state)
    return check_texts(folder_texts(context, folder), catalogue)


def checked_documents(context: typer.Context, folder: Path, state: Path) -> list[str]:
    """Return the texts of a folder's contracts as they were checked."""
    texts = folder_texts(context, folder)
    check_texts(texts, known_models(invocation(context).load().config, state))
    return list(texts.values())


def compiled_folder(
    context: typer.Context, folder: Path, state: Path
) -> tuple[ContractSet, Catalogue]:
    """Return a folder's contracts as gateways would decide by them, and the catalogue."""
    catalogue = known_models(invocation(context).load().config, state)
    found = check_texts(folder_texts(context, folder), catalogue)
    compiled = [compile_contract(each, 1, catalogue) for each in found.values()]
    return ContractSet(0, compiled), catalogue
