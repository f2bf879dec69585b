"""Reads the built-in and the operator's model entries, and looks models up by name.

A wrong entry aborts startup with its file, its key and what to write instead; no entry is skipped
silently. This room holds the recipes that start engines, but starts no engine.
"""

from penstock.catalogue.catalogue_reader import CatalogueReader
from penstock.catalogue.entry_error import CatalogueError
from penstock.catalogue.models import Catalogue, load_catalogue
from penstock.catalogue.recipes import LaunchValues, fill, lacks_for_hosts, takes_key, takes_weights
from penstock.catalogue.settings import CatalogueSettings

__all__ = [
    "Catalogue",
    "CatalogueError",
    "CatalogueReader",
    "CatalogueSettings",
    "LaunchValues",
    "fill",
    "lacks_for_hosts",
    "load_catalogue",
    "takes_key",
    "takes_weights",
]
