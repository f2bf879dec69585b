"""Settings of the catalogue."""

from typing import Annotated

import msgspec
from msgspec import Meta


class CatalogueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where entries come from, and which of them is the default."""

    # Folder with your own entries (`*.toml`, one model each); empty means only the built-in ones.
    folder: str = ""
    # Model that answers to `model: "default"`, by id or alias; empty means `default` is refused.
    default_model: str = ""
    # Most entries that are read from the folder; more are refused at start.
    entries_max: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    # Largest entry that is read, in bytes; a larger file is refused at start.
    entry_bytes_max: Annotated[int, Meta(ge=1024, le=16_777_216)] = 65_536
