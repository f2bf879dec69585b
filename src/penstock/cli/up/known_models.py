"""Loads the catalogue for a command: the configuration's, or that of a `penstock up`."""

from pathlib import Path

import msgspec

from penstock.catalogue import Catalogue, load_catalogue
from penstock.cli.up.state import UpState
from penstock.config import Config


def known_models(config: Config, state: Path) -> Catalogue:
    """Load the catalogue; settings that the configuration lacks are those of the run in `state`."""
    settings, up = config.catalogue, UpState(state)
    if not settings.folder and up.models.is_dir():
        settings = msgspec.structs.replace(settings, folder=str(up.models))
    running = up.read_running()
    if not settings.default_model and running is not None:
        settings = msgspec.structs.replace(settings, default_model=running.default_model)
    return load_catalogue(settings)
