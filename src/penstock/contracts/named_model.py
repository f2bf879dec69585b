"""Finds a model that a contract names, or says what to write instead. Pure."""

from penstock.catalogue import Catalogue
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import AUTO_MODEL
from penstock.errors import Error
from penstock.records.model import Model


def find_model(name: str, key: str, catalogue: Catalogue) -> Model:
    """Return a model by the name at a key of the contract."""
    if name == AUTO_MODEL:
        raise ContractError(
            f"`{AUTO_MODEL}` is how callers leave the choice to this contract",
            advice="Name a model: `penstock models list` shows those there are",
            key=key,
        )
    try:
        return catalogue.find(name)
    except Error:
        close = catalogue.similar(name)
        meant = close or (catalogue.models[0].id if catalogue.models else "")
        last = key.rpartition(".")[2]
        advice = f'Write {last} = "{meant}"' if meant else "Add it to the catalogue"
        raise ContractError(f"{name!r} is not in the catalogue", advice=advice, key=key) from None
