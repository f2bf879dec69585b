"""Counts a prompt's tokens without running it, by asking an engine that serves the model."""

from collections.abc import Callable

from penstock.errors import NoReplica
from penstock.records.model import ModelId
from penstock.records.replica import Replica
from penstock.records.request import InferenceRequest
from penstock.serving.fleet_clients import FleetClients


class TokenCounter:
    """`ready` lists a model's replicas; any of them counts alike."""

    def __init__(
        self, clients: FleetClients, ready: Callable[[ModelId], tuple[Replica, ...]]
    ) -> None:
        self._clients = clients
        self._ready = ready

    async def count(self, request: InferenceRequest) -> int | None:
        """Return the engine's count; None if the engine cannot count."""
        replicas = [
            each
            for each in self._ready(request.model.id)
            if not each.accounts or request.account in each.accounts
        ]
        if not replicas:
            raise NoReplica(f"No replica of {request.model.id} is ready.", retry_after_seconds=5)
        # By the request's id, which is random, so that all of them share the work.
        replica = replicas[hash(request.id) % len(replicas)]
        return await self._clients.to(replica).count_tokens(request)
