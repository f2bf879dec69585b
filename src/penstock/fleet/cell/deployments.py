"""What operators do with deployments: apply, scale, pause, roll back, remove. Writes revisions."""

from datetime import datetime
from typing import Final

import msgspec

from penstock.catalogue import Catalogue, lacks_for_hosts, takes_weights
from penstock.errors import Conflict, InvalidRequest, NotFound
from penstock.fleet.cell.deployment_rows import lock_deployments
from penstock.fleet.cell.rollout import RolloutStage
from penstock.records.deployment import DeploymentSpec, ReplicaRange
from penstock.records.model import Model, Recipe
from penstock.store.pool import Row, Store, Transaction

_DEPLOYMENTS_MAX: Final = 50
_COLUMNS: Final = """
    d.name, d.revision, d.launch, d.stable, d.target, d.target_reason, d.stage, d.reason, d.waits,
    d.is_paused, r.model, r.spec::text,
    (select count(*) from assignments a where a.deployment = d.name and a.ending = ''),
    (select count(*) from assignments a join replicas p on p.assignment = a.id::text
     where a.deployment = d.name and p.state = 'ready'),
    (select coalesce(string_agg(distinct h.name || ' ' || (h.fetching ->> r.model), '; '), '')
     from assignments a
     left join assignment_parts o on o.assignment = a.id
     join hosts h on h.keeper in (a.keeper, o.keeper)
     where a.deployment = d.name and a.ending = '' and h.fetching ->> r.model is not null),
    (select coalesce(string_agg(distinct p.detail, '; '), '')
     from assignments a join replicas p on p.assignment = a.id::text
     where a.deployment = d.name and p.state = 'starting' and p.detail <> '')
"""
_LIST: Final = f"""
    select {_COLUMNS} from deployments d
    join deployment_revisions r on r.deployment = d.name and r.revision = d.revision
    where not d.is_removed and (%s::text is null or d.name = %s) order by d.name
"""  # noqa: S608 - constants only
_HISTORY: Final = """
    select revision, launch, model, spec::text, made_by, why, made_at
    from deployment_revisions where deployment = %s order by revision desc limit 100
"""
_REVISION: Final = """
    select model, spec::text, recipe::text, launch from deployment_revisions
    where deployment = %s and revision = %s
"""
_SAME_LAUNCH: Final = """
    select launch from deployment_revisions
    where deployment = %s and model = %s and recipe = %s::jsonb order by revision limit 1
"""
_ADD_REVISION: Final = """
    insert into deployment_revisions
        (deployment, revision, launch, model, spec, recipe, made_by, why)
    values (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_ADD: Final = """
    insert into deployments (name, revision, launch, target, stage)
    values (%s, 1, 1, %s, 'rolling')
    on conflict (name) do nothing
"""
# What was at zero stays there.
_MOVE: Final = """
    update deployments set
        revision = %s, launch = %s, target = least(greatest(target, %s), %s), is_removed = false,
        target_since = now(), target_reason = '',
        stage = case when launch = %s then stage else %s end,
        stage_since = case when launch = %s then stage_since else now() end,
        reason = case when launch = %s then reason else '' end
    where name = %s
"""


class ResolvedDeployment(msgspec.Struct, frozen=True):
    """A deployment whose model was found in the catalogue: how its replicas are started."""

    name: str
    spec: DeploymentSpec
    model: str
    recipe: Recipe


class ShownDeployment(msgspec.Struct, frozen=True):
    """A deployment as operators see it."""

    name: str
    revision: int
    launch: int
    stable: int | None
    # How many replicas are wanted, placed and ready.
    target: int
    # Why so many are wanted, where that follows the load; else "".
    target_reason: str
    stage: str
    # Why the rollout stands so.
    reason: str
    # Why replicas have no place.
    waits: str
    is_paused: bool
    model: str
    spec: DeploymentSpec
    placed: int
    ready: int
    # Weights that hosts fetch before replicas can start there.
    fetches: str = ""
    # Why replicas that were started do not run yet, such as pods for which a cluster has no room.
    pending: str = ""


class ShownRevision(msgspec.Struct, frozen=True):
    """One revision: what was wanted, who made it, when and why."""

    revision: int
    launch: int
    model: str
    spec: DeploymentSpec
    made_by: str
    why: str
    made_at: datetime


class Author(msgspec.Struct, frozen=True):
    """Who makes a revision, and why."""

    key: str
    why: str = ""


def resolve(name: str, spec: DeploymentSpec, catalogue: Catalogue) -> ResolvedDeployment:
    """Find a deployment's model, and the recipe with its own arguments."""
    model: Model = catalogue.find(spec.model)
    recipe = model.recipe
    if spec.pool and takes_weights(recipe):
        raise InvalidRequest(
            f"The recipe of {model.id} has {{weights}}, which hosts fetch: give the pods of a pool"
            " a volume, and write its path.",
            param=name,
        )
    lacking = lacks_for_hosts(recipe)
    if lacking:
        raise InvalidRequest(
            f"The recipe of {model.id} has no {lacking[0]}: its parts on {recipe.hosts} hosts would"
            " not find each other.",
            param=name,
        )
    own = msgspec.structs.replace(
        recipe,
        command=(*recipe.command, *spec.arguments),
        environment={**recipe.environment, **spec.environment},
    )
    return ResolvedDeployment(name, spec, model.id, own)


class Deployments:
    """Writes deployments and their revisions; control's loop writes all else of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, name: str | None = None) -> list[ShownDeployment]:
        async with self._store.statement() as statement:
            rows = await statement.fetch(_LIST, (name, name))
        return [_shown(row) for row in rows]

    async def find(self, name: str) -> ShownDeployment:
        found = await self.read(name)
        if not found:
            raise NotFound(f"There is no deployment {name}. `penstock deploy status` shows them.")
        return found[0]

    async def history(self, name: str) -> list[ShownRevision]:
        """Return the revisions, newest first."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_HISTORY, (name,))
        if not rows:
            raise NotFound(f"There is no deployment {name}.")
        return [
            ShownRevision(
                row[0], row[1], row[2], msgspec.json.decode(row[3], type=DeploymentSpec), *row[4:]
            )
            for row in rows
        ]

    async def apply(
        self, wanted: list[ResolvedDeployment], base: dict[str, int], author: Author
    ) -> list[str]:
        """Write new revisions, all or none; return the names of those that changed.

        `base` has the revisions that the author saw; Conflict if another has come since.
        """
        changed = []
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            for each in wanted:
                present = await _present(tx, each.name)
                _check_base(each.name, base.get(each.name, 0), present)
                if await self._write(tx, each, present, author):
                    changed.append(each.name)
            row = await tx.fetch_one("select count(*) from deployments")
            if row is not None and row[0] > _DEPLOYMENTS_MAX:
                raise InvalidRequest(f"A cell has at most {_DEPLOYMENTS_MAX} deployments.")
        return changed

    async def roll_back(self, name: str, revision: int | None, author: Author) -> None:
        """Make an earlier revision the newest again; the one before if none is named."""
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            present = await _require(tx, name)
            wanted = present - 1 if revision is None else revision
            row = await tx.fetch_one(_REVISION, (name, wanted))
            if row is None or wanted == present:
                raise NotFound(f"{name} has no earlier revision {wanted}.")
            earlier = ResolvedDeployment(
                name,
                msgspec.json.decode(row[1], type=DeploymentSpec),
                row[0],
                msgspec.json.decode(row[2], type=Recipe),
            )
            why = author.why or f"back to revision {wanted}"
            await self._write(tx, earlier, present, Author(author.key, why))

    async def scale(self, name: str, replicas: ReplicaRange, author: Author) -> None:
        """Change how many replicas are wanted."""
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            present = await _require(tx, name)
            row = await tx.fetch_one(_REVISION, (name, present))
            assert row is not None, "a deployment has its newest revision"
            spec = msgspec.json.decode(row[1], type=DeploymentSpec)
            try:
                own = msgspec.structs.replace(spec, replicas=replicas)
            except ValueError as unfit:
                raise InvalidRequest(f"{name}: {unfit}.", param="replicas") from None
            recipe = msgspec.json.decode(row[2], type=Recipe)
            scaled = ResolvedDeployment(name, own, row[0], recipe)
            await self._write(tx, scaled, present, author)

    async def set_paused(self, name: str, is_paused: bool) -> None:
        """Let a deployment stand as it is, or go on."""
        await self._set(name, "update deployments set is_paused = %s where name = %s", is_paused)

    async def remove(self, name: str) -> None:
        """End all replicas of a deployment; its row goes when they have ended."""
        statement = "update deployments set is_removed = %s where name = %s and not is_removed"
        await self._set(name, statement, True)

    async def _set(self, name: str, statement: str, value: bool) -> None:
        async with self._store.transaction() as tx:
            await lock_deployments(tx)
            if not await tx.execute(statement, (value, name)):
                raise NotFound(f"There is no deployment {name}.")

    async def _write(
        self, tx: Transaction, wanted: ResolvedDeployment, present: int, author: Author
    ) -> bool:
        """Write a revision unless it is the same as the present one; return whether it was not."""
        spec, recipe = _text(wanted.spec), _text(wanted.recipe)
        before = await tx.fetch_one(_REVISION, (wanted.name, present)) if present else None
        if before is not None and _is_same(before, wanted):
            return False
        revision = present + 1
        if not present:
            await tx.execute(_ADD, (wanted.name, wanted.spec.first_target))
        same = await tx.fetch_one(_SAME_LAUNCH, (wanted.name, wanted.model, recipe))
        launch = revision if same is None else same[0]
        names = (wanted.name, revision, launch, wanted.model)
        await tx.execute(_ADD_REVISION, (*names, spec, recipe, author.key, author.why))
        may_sleep = wanted.spec.scale.idle_to_zero_minutes > 0
        low = wanted.spec.replicas.min if may_sleep else wanted.spec.first_target
        bounds = (low, wanted.spec.replicas.max)
        stage = RolloutStage.CANARY if wanted.spec.rollout.canary else RolloutStage.ROLLING
        values = (revision, launch, *bounds, launch, stage, launch, launch, wanted.name)
        await tx.execute(_MOVE, values)
        return True


def _is_same(row: Row, wanted: ResolvedDeployment) -> bool:
    spec = msgspec.json.decode(row[1], type=DeploymentSpec)
    recipe = msgspec.json.decode(row[2], type=Recipe)
    return (row[0], spec, recipe) == (wanted.model, wanted.spec, wanted.recipe)


async def _present(tx: Transaction, name: str) -> int:
    """Return the newest revision; 0 if there is no such deployment."""
    row = await tx.fetch_one("select revision from deployments where name = %s", (name,))
    return 0 if row is None else int(row[0])


async def _require(tx: Transaction, name: str) -> int:
    present = await _present(tx, name)
    if not present:
        raise NotFound(f"There is no deployment {name}.")
    return present


def _check_base(name: str, base: int, present: int) -> None:
    if base == present:
        return
    if not present:
        raise Conflict(f"Deployment {name} was removed meanwhile.")
    raise Conflict(
        f"Deployment {name} has revision {present} by now, and you saw {base or 'none'}: look at"
        f" `penstock deploy history {name}`, and apply again."
    )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _shown(row: Row) -> ShownDeployment:
    return ShownDeployment(
        name=row[0],
        revision=row[1],
        launch=row[2],
        stable=row[3],
        target=row[4],
        target_reason=row[5],
        stage=row[6],
        reason=row[7],
        waits=row[8],
        is_paused=row[9],
        model=row[10],
        spec=msgspec.json.decode(row[11], type=DeploymentSpec),
        placed=row[12],
        ready=row[13],
        fetches=row[14],
        pending=row[15],
    )
