"""Finds the weights without which a keeper's replicas cannot start. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable

from penstock.catalogue import takes_weights
from penstock.fleet.intent import FleetObservation, Want
from penstock.records.model import Weights


def awaited_weights(wants: Iterable[Want], observation: FleetObservation) -> dict[str, Weights]:
    """Return the weights of wants that lack replicas, by want. Replicas that run need no look."""
    present = Counter(replica.want for replica in observation.replicas)
    return {
        want.name: want.recipe.weights
        for want in wants
        if want.provider == "process"
        and present[want.name] < want.count
        and want.recipe is not None
        and want.recipe.weights
        and takes_weights(want.recipe)
    }


def fetched_now(
    wants: Iterable[Want], unfetched: Collection[str], waiting: Collection[str]
) -> list[Want]:
    """Return the wants to fetch for: those without room would only fill the disk."""
    return [want for want in wants if want.name in unfetched and want.model not in waiting]
