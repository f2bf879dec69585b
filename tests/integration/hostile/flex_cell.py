"""A gateway and a keeper as processes on one database, and an engine for the keeper's jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.flex_process import PenstockProcess
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.flex_keeper import short_folder
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import Settings, eventually, free_port
from tests.integration.cells.runtime_dsn import runtime_dsn

# Fewer than jobs come at a time, so that some wait.
_SLOTS = 6
_READY_SECONDS = 30.0


@contextmanager
def flex_cell(cells: CellFactory, settings: Settings) -> Iterator[Cell]:
    """The settings are the keeper's and the gateway's. All of it ends with the block."""
    with short_folder() as folder:
        shared: Settings = {
            "signals.folder": str(folder / "signals"),
            "store.objects_url": f"file:{folder / 'objects'}",
            "store.cell_key_file": key_file(folder),
            **settings,
        }
        with cells.open(shared) as cell:
            engine = cell.set_up()
            replica = {
                "model": CHAT, "provider": "attach", "url": engine.url, "slots_live": _SLOTS,
                "has_priority": True,
            }  # fmt: skip
            keeper = PenstockProcess(
                folder,
                {
                    **shared,
                    "store.dsn": runtime_dsn(cell.dsn),
                    "catalogue.folder": str(cell.journal.parent / "catalogue"),
                    "metering.journal_folder": str(folder / "journal"),
                    "fleet.replicas": [replica],
                    "fleet.state_folder": str(folder / "keeper"),
                    "fleet.metrics_port": free_port(),
                },
                "keeper",
            )
            keeper.start()
            try:
                ready = "penstock_ready_replicas"
                eventually(lambda: cell.gateway.metric(ready) == 1, _READY_SECONDS)
                yield cell
            finally:
                keeper.stop()
