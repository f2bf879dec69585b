"""Two gateways of two workers before two real engines: `penstock up`, and one more gateway beside.

All four workers and the keeper hear each other through one folder of signals, over one Postgres.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.engine.real_cell import READY_SECONDS, TEXT_MODEL, Cell, running_up
from tests.integration.cells.gateway_process import GatewayProcess, eventually

from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.records.replica import Replica, ReplicaState
from penstock.store.embedded import EmbeddedPostgres

_WORKERS = 2
_REPLICAS = 2
_KV_LINE = 'VLLM_CPU_KVCACHE_SPACE = "{}"'
_EXACT = '"--dtype", "float32",'
# 23 kB a token, twice that in float32: at least 93,000 tokens, so that one replica keeps all
# conversations.
_KV_GIB = 4
# Engines, gateways and the test share two cores: a healthy engine may be late to say that it is.
_PROBE_SECONDS = 10
# Of vLLM's cache on a CPU; on a GPU it is 16, which is the setting's default.
BLOCK_TOKENS = 128


class RoutingCell(msgspec.Struct, frozen=True):
    """Where a turn can be sent: through either gateway, or straight to either engine."""

    key: str
    gateways: tuple[str, str]
    replicas: tuple[Replica, ...]


@contextlib.contextmanager
def routing_cell(folder: Path) -> Iterator[RoutingCell]:
    """Everything started, heard and ready; and ended with the block."""
    catalogue = folder / "catalogue"
    catalogue.mkdir()
    (catalogue / "smollm2.toml").write_text(_entry())
    # Not in `folder`: its path may be too long for a Unix socket.
    signals = Path(tempfile.mkdtemp(prefix="penstock-"))
    (folder / "penstock.toml").write_text(_configuration(catalogue, signals))
    try:
        with running_up(folder) as cell:
            eventually(lambda: len(_ready(cell)) == _REPLICAS, READY_SECONDS)
            with GatewayProcess(folder, _second_gateway(folder, cell, catalogue, signals)) as other:
                # Everybody but the worker itself: the other workers, and the keeper.
                heard = 2 * _WORKERS
                eventually(lambda: other.metric("penstock_peers_heard") == heard, 30)
                yield RoutingCell(cell.key, (cell.base_url, other.url), _ready(cell))
    finally:
        shutil.rmtree(signals)


def _entry() -> str:
    """The built-in model, with room in its cache for all conversations at once."""
    text = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    room = _KV_LINE.format(1)
    assert room in text
    assert _EXACT in text
    # What it answers does not matter here, and the CPU's own numbers are read faster.
    return text.replace(room, _KV_LINE.format(_KV_GIB)).replace(_EXACT, "")


def reads_slowly() -> bool:
    """Without instructions for bfloat16 a CPU needs minutes for what others read in seconds."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" not in flags and "amx_bf16" not in flags


def _configuration(catalogue: Path, signals: Path) -> str:
    return f"""
[ingress]
workers = {_WORKERS}
[engine]
probe_timeout_seconds = {_PROBE_SECONDS}
[routing]
block_tokens = {BLOCK_TOKENS}
[signals]
folder = "{signals}"
[catalogue]
folder = "{catalogue}"
[fleet]
# The second gateway and the tests ask engines without the cell's key.
engine_keys = false
[[fleet.replicas]]
model = "{TEXT_MODEL}"
count = {_REPLICAS}
"""


def _second_gateway(folder: Path, cell: Cell, catalogue: Path, signals: Path) -> dict[str, object]:
    return {
        "store.dsn": EmbeddedPostgres(Path(cell.state) / "postgres").dsn,
        "ingress.workers": _WORKERS,
        "engine.probe_timeout_seconds": _PROBE_SECONDS,
        "routing.block_tokens": BLOCK_TOKENS,
        "signals.folder": str(signals),
        "catalogue.folder": str(catalogue),
        "metering.journal_folder": str(folder / "journal"),
    }


def _ready(cell: Cell) -> tuple[Replica, ...]:
    return tuple(replica for replica in cell.replicas() if replica.state is ReplicaState.READY)
