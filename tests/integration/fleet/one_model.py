"""A catalogue of one model, whose engine is scripted and needs no GPU."""

import sys

from penstock.catalogue import Catalogue
from penstock.records.model import Family, Model, ModelId, Recipe

MODEL = ModelId("@cf/test/one")


def catalogue_of_one() -> Catalogue:
    command = (
        *(sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"),
        *("--host", "{address}", "--port", "{port}"),
    )
    return Catalogue([Model(MODEL, Family.OPENAI, 8192, Recipe(command, {}, "m"))])
