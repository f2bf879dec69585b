"""Says what applying a deployment would change, and where its replicas would go. Pure."""

from collections import Counter

import msgspec

from penstock.fleet.cell.deployments import ResolvedDeployment, ShownDeployment
from penstock.fleet.cell.place import WantedPlaces, place
from penstock.fleet.cell.step import open_hosts
from penstock.fleet.cell.view import CellLimits, CellView


class PlannedChange(msgspec.Struct, frozen=True):
    """What would become of one deployment."""

    name: str
    # "create", "change" or "same".
    kind: str
    # The newest revision now; 0 if there is none.
    revision: int
    # Fields that differ, old and new, for people.
    differs: dict[str, tuple[str, str]]
    # How many new replicas each host would get first.
    places: dict[str, int]
    # Why replicas would find no place; "" if all would.
    waits: str


def planned_change(
    wanted: ResolvedDeployment, present: ShownDeployment | None, cell: CellView
) -> PlannedChange:
    """Compare a deployment with what there is, and place the replicas that it lacks."""
    differs = {} if present is None else _differences(present, wanted)
    count = wanted.spec.first_target - (0 if present is None else present.placed)
    places, reasons = place(
        [
            WantedPlaces(
                deployment=wanted.name,
                launch=0,
                count=max(0, count),
                gpus=wanted.recipe.gpus,
                hosts=wanted.spec.hosts,
                is_spread=wanted.spec.spread == "hosts",
                nodes=wanted.recipe.hosts,
                pool=wanted.spec.pool,
            )
        ],
        open_hosts(cell, cell.assignments, CellLimits()),
    )
    kind = "create" if present is None else "change" if differs else "same"
    return PlannedChange(
        name=wanted.name,
        kind=kind,
        revision=0 if present is None else present.revision,
        differs=differs,
        places=dict(Counter(host for each in places for host in each.hosts)),
        waits=reasons.get(wanted.name, ""),
    )


def _differences(
    present: ShownDeployment, wanted: ResolvedDeployment
) -> dict[str, tuple[str, str]]:
    before, after = msgspec.to_builtins(present.spec), msgspec.to_builtins(wanted.spec)
    return {
        name: (_text(before[name]), _text(after[name]))
        for name in after
        if before[name] != after[name]
    }


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
