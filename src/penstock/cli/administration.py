"""Runs operations of administration for commands.

With PENSTOCK_OPERATOR_URL or PENSTOCK_OPERATOR_KEY set, an operation runs in `penstock control`,
over HTTP, and needs no database. Otherwise it runs in this process, on the database that it finds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import typer

from penstock import errors
from penstock.app.operator_rooms import operator_rooms
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller
from penstock.cli.options import invocation
from penstock.cli.postgres import opened
from penstock.cli.up.known_models import known_models
from penstock.cli.up.state import UpState
from penstock.clock import SystemClock
from penstock.config import ClientDefaults, Config, client_defaults
from penstock.console.acts import run_logged
from penstock.console.operation import Answered, Asked, Operation, request_for
from penstock.console.rooms import OperatorRooms
from penstock.wire.resources.errors import OpenAIErrorAnswer

_SECONDS = 60.0
Result = TypeVar("Result")


class Administration(Protocol):
    """Runs operations one after another."""

    async def run(self, operation: Operation[Asked, Answered], asked: Asked) -> Answered: ...


class RemoteAdministration:
    """Runs operations in `penstock control`."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._caller = HttpCaller(api_keys={"*": key}, seconds=_SECONDS)

    async def run(self, operation: Operation[Asked, Answered], asked: Asked) -> Answered:
        """Send the question and return the answer; an error is raised as control's."""
        path, body = request_for(operation, asked)
        headers = {} if body is None else {"content-type": "application/json"}
        answer = await asyncio.to_thread(
            self._caller.call, operation.method, self._url, path, body, headers
        )
        if answer.status != 200:
            raise _failure(answer.status, answer.body, self._url)
        return msgspec.json.decode(answer.body, type=operation.answer)


class LocalAdministration:
    """Runs operations in this process."""

    def __init__(self, rooms: OperatorRooms) -> None:
        self._rooms = rooms

    async def run(self, operation: Operation[Asked, Answered], asked: Asked) -> Answered:
        return await run_logged(operation, self._rooms, asked)


def run_operation(
    context: typer.Context, state: Path, operation: Operation[Asked, Answered], asked: Asked
) -> Answered:
    """Run one operation for a command."""
    return administer(context, state, lambda desk: desk.run(operation, asked))


def administer(
    context: typer.Context, state: Path, act: Callable[[Administration], Awaitable[Result]]
) -> Result:
    """Run several operations for a command."""
    config = invocation(context).load().config
    defaults = client_defaults()

    async def run() -> Result:
        if defaults.operator_url or defaults.operator_key:
            return await act(_remote(config, defaults))
        async with opened(config, state) as store:
            at_state = _config_of(config, state)
            rooms = operator_rooms(
                store, at_state, SystemClock(), lambda: known_models(config, state)
            )
            return await act(LocalAdministration(rooms))

    return asyncio.run(run())


def _remote(config: Config, defaults: ClientDefaults) -> RemoteAdministration:
    if not defaults.operator_key:
        raise CommandFailed(
            "PENSTOCK_OPERATOR_URL is set, but no key: set PENSTOCK_OPERATOR_KEY to an operator's.",
            ExitCode.USAGE,
        )
    url = defaults.operator_url or f"http://{config.control.host}:{config.control.port}"
    return RemoteAdministration(url, defaults.operator_key)


def _config_of(config: Config, state: Path) -> Config:
    """Return the settings; with `store.dsn` empty, with the folders of a `penstock up`."""
    if config.store.dsn:
        return config
    folder = UpState(state)
    store = msgspec.structs.replace(
        config.store, objects_url=f"file:{folder.objects}", cell_key_file=str(folder.cell_key)
    )
    return msgspec.structs.replace(config, store=store)


def _failure(status: int, body: bytes, url: str) -> Exception:
    """Return control's error as the error that it is."""
    try:
        told = msgspec.json.decode(body, type=OpenAIErrorAnswer).error
    except msgspec.DecodeError:
        return CommandFailed(f"{url} answered {status}: is it the address of `penstock control`?")
    kind = _BY_CODE.get(told.code or "")
    if kind is None or issubclass(kind, errors.Unauthenticated | errors.Forbidden):
        return CommandFailed(f"{url}: {told.message}")
    return kind(told.message)


def _kinds(kind: type[errors.Error]) -> dict[str, type[errors.Error]]:
    found: dict[str, Any] = {kind.code: kind}
    for each in kind.__subclasses__():
        found |= _kinds(each)
    return found


_BY_CODE = _kinds(errors.Error)
