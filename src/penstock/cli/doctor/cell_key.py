"""Checks that the cell has a key, and that this host's file holds it."""

from penstock.cli.doctor.check import Check, fail, ok, warn
from penstock.errors import InvalidRequest
from penstock.store import Sealing, Store, StoreSettings

_NAME = "cell key"


async def check_cell_key(store: Store, settings: StoreSettings) -> Check:
    """Compare the key in the file with the cell's."""
    sealing = Sealing(store, settings)
    if not sealing.is_on:
        return warn(
            _NAME,
            "there is none: jobs, files and engines' keys are in clear, and no response is stored",
            "Make one with `openssl rand -hex 32`, and name its file in store.cell_key_file.",
        )
    try:
        await sealing.check()
    except InvalidRequest as wrong:
        return fail(_NAME, wrong.message, "Copy the file from another host of this cell.")
    return ok(_NAME, f"{settings.cell_key_file} is this cell's")
