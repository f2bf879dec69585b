"""What a model is told of code that its container did not run."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from penstock.errors import ContainerExpired, Error, SandboxUnavailable
from penstock.records.account import AccountId
from penstock.tools import AccountContainer, ContainerId, CopiedFiles
from penstock.tools.container_ids import shown_container
from penstock.turns.code_tool import TurnCode
from penstock.turns.tool_offers import TurnTools
from penstock.wire.resources.sandbox import CallEnded


def container(number: int) -> AccountContainer:
    return AccountContainer(
        id=ContainerId(f"00000000-0000-0000-0000-{number:012}"),
        account=AccountId("account"),
        name="",
        host="http://host",
        boot="boot",
        state="running",
        memory_mb=1024,
        idle_minutes=20,
        driver="imitated",
        isolation="namespaces",
        created_at=0.0,
        last_active_at=0.0,
        is_live=True,
    )


class Rooms:
    """Containers of which none runs code; `is_there` says whether the host answers."""

    def __init__(self, failure: Error, *, is_there: bool = True) -> None:
        self.failure = failure
        self.is_there = is_there
        self.made = 0

    async def create(self, *_: object) -> AccountContainer:
        self.made += 1
        return container(self.made)

    async def usable(self, _: AccountId, id: ContainerId) -> AccountContainer | None:
        return container(int(id[-12:])) if self.is_there else None

    async def run_code(self, *_: object) -> AsyncIterator[object]:
        for failure in (self.failure,):
            raise failure
        yield None

    def code(self) -> TurnCode:
        rooms = cast("Any", self)
        return TurnCode(rooms, rooms, rooms)


def turn() -> TurnTools:
    return TurnTools({}, AccountId("account"), container=container(0))


async def test_a_host_with_too_many_calls_has_not_lost_the_container() -> None:
    rooms, tools = Rooms(SandboxUnavailable()), turn()
    outcome = await rooms.code().run(tools, "call", "x = 1")
    assert outcome.is_failed
    assert outcome.told.startswith("The code was not run")
    assert "ended" not in outcome.told
    assert tools.container == container(0)
    assert outcome.container == shown_container(container(0).id)


async def test_a_host_that_is_gone_is_not_asked_again() -> None:
    rooms, tools = Rooms(SandboxUnavailable(), is_there=False), turn()
    outcome = await rooms.code().run(tools, "call", "x = 1")
    assert outcome.told.startswith("The code was not run")
    assert tools.container is None
    assert tools.is_state_lost


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_container_that_ends_twice_is_told_to_the_model(is_there: bool) -> None:
    rooms, tools = Rooms(ContainerExpired(), is_there=is_there), turn()
    outcome = await rooms.code().run(tools, "call", "x = 1")
    assert outcome.is_failed
    assert rooms.made == 1
    assert tools.container is None


async def test_a_file_that_is_not_kept_is_not_called_too_large() -> None:
    """Other code may have run in the container when it was to be copied."""

    class Leaving(Rooms):
        async def run_code(self, *_: object) -> AsyncIterator[object]:
            yield CopiedFiles([], ["table.csv"])
            yield CallEnded(0.1)

    outcome = await Leaving(SandboxUnavailable()).code().run(turn(), "call", "x = 1")
    assert not outcome.is_failed
    assert "[table.csv could not be kept]" in outcome.told
