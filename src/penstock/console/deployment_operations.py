"""Operations on deployments: plan, apply, watch, scale, pause, roll back, remove."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.fleet.cell.deployment_rows import read_cell
from penstock.fleet.cell.deployments import (
    Author,
    ResolvedDeployment,
    ShownDeployment,
    ShownRevision,
    resolve,
)
from penstock.fleet.cell.planning import PlannedChange, planned_change
from penstock.policy.account_names import find_account
from penstock.records.deployment import DeploymentSpec, Name, ReplicaRange


class DeploymentsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Deployments by name, as they are wanted."""

    deployments: Annotated[dict[Name, DeploymentSpec], Meta(min_length=1, max_length=50)]


class DeploymentsApplied(DeploymentsAsked, frozen=True, kw_only=True):
    """The same, to be written."""

    # The revisions that the caller saw; a deployment that is not named was not there.
    base: dict[str, int] = msgspec.field(default_factory=dict)
    # Why, for the history.
    why: Annotated[str, Meta(max_length=500)] = ""


class PlanAnswer(msgspec.Struct, frozen=True):
    """What applying deployments would change."""

    changes: list[PlannedChange]


class AppliedAnswer(msgspec.Struct, frozen=True):
    """The deployments that were changed, and all that were applied as they are now."""

    changed: list[str]
    deployments: list[ShownDeployment]


class DeploymentsAnswer(msgspec.Struct, frozen=True):
    """Deployments, by name."""

    deployments: list[ShownDeployment]


class DeploymentNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One deployment."""

    name: str


class RevisionsAnswer(msgspec.Struct, frozen=True):
    """Revisions of a deployment, newest first."""

    revisions: list[ShownRevision]


class RollbackAsked(DeploymentNamed, frozen=True, kw_only=True):
    """A deployment, and the revision to go back to; the one before if none is named."""

    revision: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    why: Annotated[str, Meta(max_length=500)] = ""


class ScaleAsked(DeploymentNamed, frozen=True, kw_only=True):
    """A deployment, and how many replicas it gets."""

    replicas: ReplicaRange
    why: Annotated[str, Meta(max_length=500)] = ""


class RemovedDeployment(msgspec.Struct, frozen=True):
    """A deployment whose replicas end."""

    name: str
    is_removed: bool = True


async def _plan(rooms: OperatorRooms, asked: DeploymentsAsked) -> PlanAnswer:
    wanted = await _resolved(rooms, asked)
    present = {each.name: each for each in await rooms.deployments.read()}
    async with rooms.store.transaction() as tx:
        cell = await read_cell(tx)
    return PlanAnswer([planned_change(each, present.get(each.name), cell) for each in wanted])


async def _apply(rooms: OperatorRooms, asked: DeploymentsApplied) -> AppliedAnswer:
    wanted = await _resolved(rooms, asked)
    author = Author(rooms.actor, asked.why)
    changed = await rooms.deployments.apply(wanted, asked.base, author)
    shown = [await rooms.deployments.find(each.name) for each in wanted]
    return AppliedAnswer(changed, shown)


async def _list(rooms: OperatorRooms, _: Nothing) -> DeploymentsAnswer:
    return DeploymentsAnswer(await rooms.deployments.read())


async def _show(rooms: OperatorRooms, asked: DeploymentNamed) -> ShownDeployment:
    return await rooms.deployments.find(asked.name)


async def _history(rooms: OperatorRooms, asked: DeploymentNamed) -> RevisionsAnswer:
    return RevisionsAnswer(await rooms.deployments.history(asked.name))


async def _roll_back(rooms: OperatorRooms, asked: RollbackAsked) -> ShownDeployment:
    author = Author(rooms.actor, asked.why)
    await rooms.deployments.roll_back(asked.name, asked.revision, author)
    return await rooms.deployments.find(asked.name)


async def _scale(rooms: OperatorRooms, asked: ScaleAsked) -> ShownDeployment:
    author = Author(rooms.actor, asked.why or "scaled")
    await rooms.deployments.scale(asked.name, asked.replicas, author)
    return await rooms.deployments.find(asked.name)


async def _pause(rooms: OperatorRooms, asked: DeploymentNamed) -> ShownDeployment:
    await rooms.deployments.set_paused(asked.name, is_paused=True)
    return await rooms.deployments.find(asked.name)


async def _resume(rooms: OperatorRooms, asked: DeploymentNamed) -> ShownDeployment:
    await rooms.deployments.set_paused(asked.name, is_paused=False)
    return await rooms.deployments.find(asked.name)


async def _remove(rooms: OperatorRooms, asked: DeploymentNamed) -> RemovedDeployment:
    await rooms.deployments.remove(asked.name)
    return RemovedDeployment(asked.name)


async def _resolved(rooms: OperatorRooms, asked: DeploymentsAsked) -> list[ResolvedDeployment]:
    """Find models and accounts by their names; refuse what does not exist."""
    catalogue, found = rooms.catalogue(), []
    for name, spec in sorted(asked.deployments.items()):
        accounts = tuple([await find_account(rooms.accounts, each) for each in spec.accounts])
        own = msgspec.structs.replace(spec, accounts=accounts)
        found.append(resolve(name, own, catalogue))
    return found


PLAN_DEPLOYMENTS = Operation(
    name="plan_deployments",
    summary="Show what applying deployments would change, and what would find no place.",
    method="POST",
    path="/deployments/plan",
    question=DeploymentsAsked,
    answer=PlanAnswer,
    run=_plan,
)
APPLY_DEPLOYMENTS = Operation(
    name="apply_deployments",
    summary="Write deployments, all or none; refused if another revision has come meanwhile.",
    method="POST",
    path="/deployments",
    question=DeploymentsApplied,
    answer=AppliedAnswer,
    run=_apply,
)
LIST_DEPLOYMENTS = Operation(
    name="list_deployments",
    summary="List the deployments: what is wanted, placed and ready, and how rollouts stand.",
    method="GET",
    path="/deployments",
    question=Nothing,
    answer=DeploymentsAnswer,
    run=_list,
)
SHOW_DEPLOYMENT = Operation(
    name="show_deployment",
    summary="Show one deployment.",
    method="GET",
    path="/deployments/{name}",
    question=DeploymentNamed,
    answer=ShownDeployment,
    run=_show,
)
LIST_REVISIONS = Operation(
    name="list_revisions",
    summary="List a deployment's revisions: what, who, when and why.",
    method="GET",
    path="/deployments/{name}/revisions",
    question=DeploymentNamed,
    answer=RevisionsAnswer,
    run=_history,
)
ROLL_BACK = Operation(
    name="roll_back",
    summary="Make an earlier revision the newest again.",
    method="POST",
    path="/deployments/{name}/rollback",
    question=RollbackAsked,
    answer=ShownDeployment,
    run=_roll_back,
)
SCALE_DEPLOYMENT = Operation(
    name="scale_deployment",
    summary="Change how many replicas a deployment gets.",
    method="POST",
    path="/deployments/{name}/scale",
    question=ScaleAsked,
    answer=ShownDeployment,
    run=_scale,
)
PAUSE_DEPLOYMENT = Operation(
    name="pause_deployment",
    summary="Let a deployment stand as it is; what is lost is replaced.",
    method="POST",
    path="/deployments/{name}/pause",
    question=DeploymentNamed,
    answer=ShownDeployment,
    run=_pause,
)
RESUME_DEPLOYMENT = Operation(
    name="resume_deployment",
    summary="Let a paused deployment go on.",
    method="POST",
    path="/deployments/{name}/resume",
    question=DeploymentNamed,
    answer=ShownDeployment,
    run=_resume,
)
REMOVE_DEPLOYMENT = Operation(
    name="remove_deployment",
    summary="End all replicas of a deployment, when their requests have finished.",
    method="DELETE",
    path="/deployments/{name}",
    question=DeploymentNamed,
    answer=RemovedDeployment,
    run=_remove,
)
DEPLOYMENT_OPERATIONS = (
    PLAN_DEPLOYMENTS,
    APPLY_DEPLOYMENTS,
    LIST_DEPLOYMENTS,
    SHOW_DEPLOYMENT,
    LIST_REVISIONS,
    ROLL_BACK,
    SCALE_DEPLOYMENT,
    PAUSE_DEPLOYMENT,
    RESUME_DEPLOYMENT,
    REMOVE_DEPLOYMENT,
)
