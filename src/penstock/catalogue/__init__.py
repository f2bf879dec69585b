"""The models there are: built-in entries, the operator's own, and one name → model lookup.

A wrong entry stops the start with its file, its key and what to write instead; nothing is skipped
quietly. This room knows how an engine is started (a recipe), and starts none.
"""

from penstock.catalogue.entry_error import CatalogueError
from penstock.catalogue.models import Catalogue, load_catalogue
from penstock.catalogue.recipes import fill
from penstock.catalogue.settings import CatalogueSettings

__all__ = ["Catalogue", "CatalogueError", "CatalogueSettings", "fill", "load_catalogue"]
