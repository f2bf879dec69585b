"""A host: one machine with a keeper, and its GPUs."""

import msgspec

from penstock.records.model import ModelId


class Gpu(msgspec.Struct, frozen=True):
    """One GPU. `id` is what `CUDA_VISIBLE_DEVICES` takes: its UUID, or its index where unknown."""

    index: int
    id: str
    name: str = ""
    memory_mb: int = 0
    # What all programs hold of its memory.
    used_mb: int = 0


class HostReport(msgspec.Struct, frozen=True):
    """What a keeper reports of its host."""

    name: str
    # Where gateways reach the engines of this host.
    address: str
    labels: dict[str, str] = {}
    gpus: tuple[Gpu, ...] = ()
    # Why wanted replicas are not started here, by model.
    waiting: dict[ModelId, str] = {}
    # How the fetches of weights stand for which replicas wait here, by model.
    fetching: dict[ModelId, str] = {}
    # Of the GPUs' driver, if there is one.
    versions: dict[str, str] = {}
    # The pool of a cluster that it is instead; "" if it is a machine.
    pool: str = ""
    # What its keeper starts: the replicas of its own "settings", or those of "deployments".
    obeys: str = "settings"


def gpus_in_words(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
