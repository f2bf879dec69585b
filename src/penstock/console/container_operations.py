"""Operations on containers: which there are, what they cost, and how to stop one."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import InvalidRequest, NotFound
from penstock.policy.account_names import account_names, find_account_if_given
from penstock.tools import AccountContainer, ContainerId
from penstock.tools.container_ids import read_container_id, shown_container

_DAYS_MAX = 400


class ShownContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container, without anything of what is in it."""

    id: str
    account: str
    name: str
    status: str
    host: str
    memory_mb: int
    idle_minutes: int
    driver: str
    isolation: str
    created_at: datetime
    last_active_at: datetime


class ContainersAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Filters of a list; `after` is the last id of the page before."""

    account: str | None = None
    ended: bool = False
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class ContainersAnswer(msgspec.Struct, frozen=True):
    """A page of containers, newest first."""

    containers: list[ShownContainer]
    account_names: dict[str, str]


class ContainerNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One container, by the id that its caller got."""

    id: str


class StoppedContainer(msgspec.Struct, frozen=True):
    """A container that is stopped."""

    id: str
    stopped: bool = True


class ContainerUsageAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Days in UTC: from `since` up to, and not including, `until`; today if not given."""

    since: date | None = None
    until: date | None = None
    account: str | None = None


class UsedContainers(msgspec.Struct, frozen=True, kw_only=True):
    """What an account's containers used. Charges are in nano-dollars."""

    account: str
    containers: int
    seconds: float
    exec_seconds: float
    charge_nanousd: int


class ContainerUsageAnswer(msgspec.Struct, frozen=True):
    """What containers used, by account, the dearest first."""

    since: date
    until: date
    usage: list[UsedContainers]
    account_names: dict[str, str]


async def _list(rooms: OperatorRooms, asked: ContainersAsked) -> ContainersAnswer:
    after = None if asked.after is None else _read(asked.after)
    owner = await find_account_if_given(rooms.accounts, asked.account)
    page = await rooms.containers.page(owner, after, asked.limit, with_ended=asked.ended)
    return ContainersAnswer([_shown(each) for each in page], await account_names(rooms.accounts))


async def _stop(rooms: OperatorRooms, asked: ContainerNamed) -> StoppedContainer:
    stopped = await rooms.containers.stop(_read(asked.id))
    return StoppedContainer(shown_container(stopped.id))


async def _usage(rooms: OperatorRooms, asked: ContainerUsageAsked) -> ContainerUsageAnswer:
    today = datetime.fromtimestamp(rooms.clock.now(), UTC).date()
    since = asked.since or today
    until = asked.until or today + timedelta(days=1)
    if not 0 < (until - since).days <= _DAYS_MAX:
        raise InvalidRequest(f"Ask for 1 to {_DAYS_MAX} days.", param="since")
    owner = await find_account_if_given(rooms.accounts, asked.account)
    used = [
        UsedContainers(
            account=each.account,
            containers=each.containers,
            seconds=each.milliseconds / 1000,
            exec_seconds=each.exec_milliseconds / 1000,
            charge_nanousd=each.charge_nanousd,
        )
        for each in await rooms.containers.usage(since, until, owner)
    ]
    return ContainerUsageAnswer(since, until, used, await account_names(rooms.accounts))


def _read(id: str) -> ContainerId:
    read = read_container_id(id)
    if read is None:
        raise NotFound(f"There is no container {id}: ids look like cntr_0198….")
    return read


def _shown(each: AccountContainer) -> ShownContainer:
    return ShownContainer(
        id=shown_container(each.id),
        account=each.account,
        name=each.name,
        status=each.status,
        host=each.host,
        memory_mb=each.memory_mb,
        idle_minutes=each.idle_minutes,
        driver=each.driver,
        isolation=each.isolation,
        created_at=datetime.fromtimestamp(each.created_at, UTC),
        last_active_at=datetime.fromtimestamp(each.last_active_at, UTC),
    )


LIST_CONTAINERS = Operation(
    name="list_containers",
    summary="List containers that run, newest first; with `ended` those that ended of late too.",
    method="GET",
    path="/containers",
    question=ContainersAsked,
    answer=ContainersAnswer,
    run=_list,
)
STOP_CONTAINER = Operation(
    name="stop_container",
    summary="Stop a container. Copies of its files stay as long as they would.",
    method="POST",
    path="/containers/{id}/stop",
    question=ContainerNamed,
    answer=StoppedContainer,
    run=_stop,
)
SHOW_CONTAINER_USAGE = Operation(
    name="show_container_usage",
    summary="Show what containers used and cost, by account, in whole days.",
    method="GET",
    path="/usage/containers",
    question=ContainerUsageAsked,
    answer=ContainerUsageAnswer,
    run=_usage,
)
CONTAINER_OPERATIONS = (LIST_CONTAINERS, STOP_CONTAINER, SHOW_CONTAINER_USAGE)
