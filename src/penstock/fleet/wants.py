"""Builds the planner's wants from settings and catalogue. Wrong entries are refused at startup."""

from collections.abc import Iterable

import msgspec

from penstock.catalogue import Catalogue, CatalogueError, LaunchValues, fill
from penstock.fleet.intent import AssignedReplica, IntentLimits, Want
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.fleet.weights.weight_folder import weights_path
from penstock.records.model import Model, Recipe


def wants_of(settings: FleetSettings, catalogue: Catalogue) -> tuple[Want, ...]:
    """Return one want per launched model and per attached server; equal launches add up."""
    wants: dict[str, Want] = {}
    for entry in settings.replicas:
        want = _want(entry, catalogue.find(entry.model))
        before = wants.get(want.name)
        if before is not None and not entry.url:
            count = before.count + want.count
            want = _want(entry, catalogue.find(entry.model), count=count)
        wants[want.name] = want
    return tuple(wants.values())


def check_recipes(settings: FleetSettings, wants: Iterable[Want]) -> None:
    """Raise CatalogueError if a placeholder of a launched model's recipe cannot be filled here."""
    for want in wants:
        if want.recipe is None:
            continue
        if want.recipe.hosts > 1:
            raise CatalogueError(
                f"one replica of {want.model} runs on {want.recipe.hosts} hosts",
                advice="Deploy it with `penstock deploy apply`",
                key="recipe.hosts",
            )
        fill(want.recipe, _sample(want.recipe, settings))


def wants_of_assigned(
    assigned: Iterable[AssignedReplica], provider: str = "process"
) -> tuple[Want, ...]:
    """Return a want for each replica that control has placed here."""
    return tuple(
        Want(
            name=f"assigned:{each.id}",
            provider=provider,
            model=each.model,
            count=1,
            served_name=each.recipe.served_name,
            dialect=each.recipe.dialect,
            slots_live=each.recipe.slots_live,
            has_priority=each.recipe.has_priority,
            # A cluster chooses the GPUs of its pods itself.
            gpus=each.recipe.gpus if provider == "process" else 0,
            start_seconds_max=float(each.recipe.start_seconds_max),
            recipe=each.recipe,
            assignment=each.id,
            accounts=each.accounts,
            part=each.part,
        )
        for each in assigned
    )


def _sample(recipe: Recipe, settings: FleetSettings) -> LaunchValues:
    """Return what would fill a recipe here, so that a wrong one is found before it is started."""
    return LaunchValues(
        port=settings.port_first,
        address=settings.replica_address,
        engine_home=settings.engine_home,
        gpus=tuple(str(number) for number in range(recipe.gpus)),
        engine_key="key",
        weights=weights_path(settings, recipe),
    )


def limits_of(settings: FleetSettings) -> IntentLimits:
    return IntentLimits(
        restart_first_seconds=settings.restart_first_seconds,
        restart_factor=settings.restart_factor,
        restart_seconds_max=settings.restart_seconds_max,
        restart_reset_seconds=settings.restart_reset_seconds,
        unhealthy_seconds=settings.unhealthy_seconds,
        drain_seconds=settings.drain_seconds,
        drain_settle_seconds=settings.drain_settle_seconds,
        gpu_foreign_mb=settings.gpu_foreign_mb,
    )


def limits_at_stop(settings: FleetSettings, *, is_hurried: bool = False) -> IntentLimits:
    """Return the limits of a keeper that ends together with its attached servers."""
    return msgspec.structs.replace(
        limits_of(settings),
        drain_seconds=0.0 if is_hurried else settings.drain_seconds,
        # A server without requests that has not ended within this time was not told to end.
        drain_settle_seconds=max(settings.drain_settle_seconds, settings.stop_grace_seconds),
        # A server that is told to end and no longer answers has ended.
        unhealthy_seconds=min(settings.drain_settle_seconds, settings.unhealthy_seconds),
    )


def _want(entry: WantedReplicas, model: Model, *, count: int | None = None) -> Want:
    recipe = model.recipe
    is_launched = entry.provider == "process"
    url = entry.url.rstrip("/")
    return Want(
        # Uses the model's id, because the settings' alias may be moved to another model.
        name=f"{entry.provider}:{model.id}:{url}",
        provider=entry.provider,
        model=model.id,
        count=entry.count if count is None else count,
        url=url,
        served_name=recipe.served_name,
        dialect=entry.dialect or recipe.dialect,
        slots_live=entry.slots_live or recipe.slots_live,
        has_priority=recipe.has_priority if is_launched else entry.has_priority,
        gpus=recipe.gpus if is_launched else 0,
        start_seconds_max=float(recipe.start_seconds_max) if is_launched else None,
        recipe=recipe if is_launched else None,
    )
