"""Builds the planner's wants from settings and catalogue. Wrong entries are refused at startup."""

from penstock.catalogue import Catalogue, LaunchValues, fill
from penstock.fleet.intent import IntentLimits, Want
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.records.model import Model, ModelId, Recipe


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


def recipes_of(settings: FleetSettings, catalogue: Catalogue) -> dict[ModelId, Recipe]:
    """Return the launched models' recipes; CatalogueError if a placeholder cannot be filled."""
    recipes: dict[ModelId, Recipe] = {}
    for entry in settings.replicas:
        if entry.provider == "process":
            model = catalogue.find(entry.model)
            fill(model.recipe, _sample(model.recipe, settings))
            recipes[model.id] = model.recipe
    return recipes


def _sample(recipe: Recipe, settings: FleetSettings) -> LaunchValues:
    """Return what would fill a recipe here, so that a wrong one is found before it is started."""
    return LaunchValues(
        port=settings.port_first,
        address=settings.replica_address,
        engine_home=settings.engine_home,
        gpus=tuple(str(number) for number in range(recipe.gpus)),
        engine_key="key",
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
    )
