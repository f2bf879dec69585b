"""The options of `penstock up`, and the settings that all its processes get."""

import os
import zlib
from pathlib import Path

import msgspec

from penstock.cli.ports import free_port, is_free
from penstock.cli.up.ready import local_address
from penstock.cli.up.sandbox_child import SandboxKind, sandbox_settings
from penstock.cli.up.state import UpState
from penstock.cli.up.wanted import WantedModels
from penstock.config import Loaded

# The fleet's default range, less some ports at its end for the last folder's replicas.
_ENGINE_PORT_FIRST = 18000
_ENGINE_PORTS = 900
# After a kill -9 of `up`: long enough for the next one to adopt a loaded engine.
_ORPHAN_SECONDS = 60.0
# With --keep-engines, how long engines wait for the next run before they end by themselves.
_KEPT_SECONDS = 3600.0


class Order(msgspec.Struct, frozen=True):
    """The command line. None means that the configuration applies."""

    file: Path | None = None
    state: Path = Path(".penstock")
    models: tuple[str, ...] = ()
    attach: tuple[str, ...] = ()
    is_imitated: bool = False
    keeps_engines: bool = False
    sandbox: SandboxKind | None = None
    port: int | None = None
    metrics_port: int | None = None
    workers: int | None = None
    dsn: str | None = None
    is_json: bool = False


def settings_for(
    order: Order, loaded: Loaded, wanted: WantedModels, state: UpState, dsn: str
) -> dict[str, object]:
    """Return `room.name` → value. Options win; one machine's defaults fill in what is not set."""
    fixed: dict[str, object] = {
        "store.dsn": dsn,
        "fleet.replicas": wanted.replicas,
        "catalogue.folder": wanted.catalogue_folder,
        "ingress.run_folder": str(state.run_folder),
    }
    ingress = loaded.config.ingress
    port = ingress.port if order.port is None else order.port
    fixed["ingress.port"] = port or free_port(ingress.host)
    if order.metrics_port is not None:
        fixed["ingress.metrics_port"] = order.metrics_port
    if order.workers is not None:
        fixed["ingress.workers"] = order.workers
    if order.sandbox is not None:
        fixed |= sandbox_settings(loaded, state)
    habits: dict[str, object] = {
        "control.console_gateway_url": (
            f"http://{local_address(ingress.host)}:{fixed['ingress.port']}"
        ),
        "catalogue.default_model": wanted.models[0].id,
        "fleet.state_folder": str(state.fleet),
        "fleet.weights_folder": str(state.weights),
        "metering.journal_folder": str(state.journal),
        "store.objects_url": f"file:{state.objects}",
        "store.cell_key_file": str(state.cell_key),
        "signals.folder": str(state.signals_folder),
        "fleet.engine_home": wanted.engine_home,
        # The gateway has ended before replicas are drained, so there is little to wait for.
        "fleet.drain_seconds": 5.0,
        "fleet.drain_settle_seconds": 1.5,
        "fleet.stop_grace_seconds": 10.0,
        # With one keeper, one Postgres and a few replicas, polling twice as often costs nothing.
        "fleet.heartbeat_seconds": 0.5,
        "fleet.roster_poll_seconds": 0.5,
        "fleet.orphan_seconds": _KEPT_SECONDS if order.keeps_engines else _ORPHAN_SECONDS,
    }
    if "control.port" not in loaded.sources:
        control = loaded.config.control
        # Several runs may share a machine.
        is_theirs = not is_free(control.host, control.port)
        habits["control.port"] = free_port(control.host) if is_theirs else control.port
    if "fleet.port_last" not in loaded.sources:
        habits["fleet.port_first"] = _first_engine_port(state)
    return {k: v for k, v in habits.items() if k not in loaded.sources} | fixed


def _first_engine_port(state: UpState) -> int:
    """Vary the port by folder: an engine binds its port a minute after it was found free."""
    return _ENGINE_PORT_FIRST + zlib.crc32(os.fsencode(state.root)) % _ENGINE_PORTS
