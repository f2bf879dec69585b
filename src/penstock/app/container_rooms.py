"""Builds the rooms of containers, for gateways, control and operators."""

from penstock.admission import SpentBudget
from penstock.clock import Clock
from penstock.config import Config
from penstock.store import Objects, Store
from penstock.tools import ContainerBook, ContainerFiles, ContainerUpkeep, SandboxHosts


def container_book(store: Store, objects: Objects, config: Config, clock: Clock) -> ContainerBook:
    """Build what creates, finds and ends containers."""
    return ContainerBook(
        store,
        SandboxHosts(config.tools, clock),
        ContainerFiles(store, objects, config.tools),
        config.tools,
        SpentBudget(store, clock).check,
    )


def container_upkeep(
    store: Store, objects: Objects, config: Config, clock: Clock
) -> ContainerUpkeep:
    """Build what tends the containers of all accounts."""
    return ContainerUpkeep(store, container_book(store, objects, config, clock), config.tools)
