"""Operations on contracts: list sets, show them, apply one, go back to an earlier one."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.contracts.compiling import check_texts
from penstock.contracts.contract_error import ContractError
from penstock.contracts.document import SCHEMA
from penstock.contracts.set_book import Applied
from penstock.contracts.set_rows import ContractRow, ContractSetRow
from penstock.errors import Conflict, InvalidRequest

# The processes that decide by contracts: keepers do for jobs.
_DECIDING = ("gateway", "keeper")
# A worker that has been silent for longer is not waited for.
_ALIVE_SECONDS = 15.0


class ContractWorker(msgspec.Struct, frozen=True):
    """A gateway worker: the set by which it decides, and why not by the one in force."""

    holder: str
    host: str
    set: int
    problem: str


class ContractSetsAnswer(msgspec.Struct, frozen=True):
    """The set in force (0 is none), all sets, newest first, and what gateways decide by."""

    in_force: int
    sets: list[ContractSetRow]
    workers: list[ContractWorker]


class SetNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One set, by its number; 0 is the one in force."""

    number: Annotated[int, Meta(ge=0, le=2**62)]


class ContractSetAnswer(msgspec.Struct, frozen=True):
    """A set with its contracts as they were written; number 0 has none."""

    number: int
    contracts: list[ContractRow]


class VersionAsked(OperatorQuestion, frozen=True, kw_only=True):
    """One version of a contract; the one in force if none is named."""

    name: Annotated[str, Meta(max_length=64)]
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ContractsApplied(OperatorQuestion, frozen=True, kw_only=True):
    """Contracts as they were written, which become the set in force."""

    documents: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    message: Annotated[str, Meta(max_length=500)] = ""
    # The set that the caller saw; without it, whatever is in force is replaced.
    base: Annotated[int, Meta(ge=0)] | None = None
    # Also while processes of an earlier release would serve without these contracts.
    force: bool = False


class GoneBack(SetNamed, frozen=True, kw_only=True):
    """An earlier set, whose contents become a new one; 0 lets no contract be in force."""

    message: Annotated[str, Meta(max_length=500)] = ""
    base: Annotated[int, Meta(ge=0)] | None = None
    force: bool = False


async def _list(rooms: OperatorRooms, _: Nothing) -> ContractSetsAnswer:
    in_force, sets = await rooms.contracts.sets()
    workers = [
        ContractWorker(
            each.worker.holder,
            each.worker.host,
            int(each.worker.facts.get("contract_set", 0)),
            str(each.worker.facts.get("contract_problem", "")),
        )
        for each in await rooms.workers.read()
        if each.worker.kind == "gateway" and each.silent_seconds < _ALIVE_SECONDS
    ]
    return ContractSetsAnswer(in_force, sets, workers)


async def _show_set(rooms: OperatorRooms, asked: SetNamed) -> ContractSetAnswer:
    if not asked.number:
        return ContractSetAnswer(*await rooms.contracts.in_force())
    return ContractSetAnswer(asked.number, await rooms.contracts.rows_of(asked.number))


async def _show(rooms: OperatorRooms, asked: VersionAsked) -> ContractRow:
    if asked.version is not None:
        return await rooms.contracts.version(asked.name, asked.version)
    return await rooms.contracts.named(asked.name)


async def _apply(rooms: OperatorRooms, asked: ContractsApplied) -> Applied:
    rooms.contracts.check_sizes(asked.documents)
    documents = await _checked(rooms, asked.documents)
    await _check_workers(rooms, force=asked.force)
    return await rooms.contracts.apply(
        documents, actor=rooms.actor, message=asked.message, base=asked.base
    )


async def _go_back(rooms: OperatorRooms, asked: GoneBack) -> Applied:
    if not asked.number:
        return await rooms.contracts.withdraw(base=asked.base)
    rows = await rooms.contracts.rows_of(asked.number)
    await _check_workers(rooms, force=asked.force)
    return await rooms.contracts.apply(
        await _checked(rooms, [row.document for row in rows]),
        actor=rooms.actor,
        message=asked.message or f"back to set {asked.number}",
        base=asked.base,
        from_set=asked.number,
    )


async def _checked(rooms: OperatorRooms, documents: list[str]) -> dict[str, str]:
    """Return the texts by the contracts' names; refuse any that gateways could not use."""
    texts = {f"document {place}": text for place, text in enumerate(documents, 1)}
    try:
        # Hundreds of contracts take longer than other operations should wait.
        found = await asyncio.to_thread(check_texts, texts, rooms.catalogue())
    except ContractError as wrong:
        raise InvalidRequest(str(wrong), param="documents") from None
    return dict(zip(found, documents, strict=True))


async def _check_workers(rooms: OperatorRooms, *, force: bool) -> None:
    """Refuse to apply contracts while a process is alive whose release cannot decide by them."""
    if force:
        return
    for each in await rooms.workers.read():
        worker = each.worker
        is_deciding = worker.kind in _DECIDING and each.silent_seconds < _ALIVE_SECONDS
        if is_deciding and int(worker.facts.get("contract_schema", 0)) < SCHEMA:
            raise Conflict(
                f"A {worker.kind} on {worker.host} is of release {worker.version}, and would serve"
                " without these contracts. Upgrade it first; `force` applies them all the same."
            )


LIST_CONTRACT_SETS = Operation(
    name="list_contract_sets",
    summary="List the sets of contracts, and by which each gateway worker decides.",
    method="GET",
    path="/contract-sets",
    question=Nothing,
    answer=ContractSetsAnswer,
    run=_list,
)
SHOW_CONTRACT_SET = Operation(
    name="show_contract_set",
    summary="Show the contracts of a set; 0 is the set in force.",
    method="GET",
    path="/contract-sets/{number}",
    question=SetNamed,
    answer=ContractSetAnswer,
    run=_show_set,
)
SHOW_CONTRACT = Operation(
    name="show_contract",
    summary="Show one contract as it was written.",
    method="GET",
    path="/contract",
    question=VersionAsked,
    answer=ContractRow,
    run=_show,
)
APPLY_CONTRACTS = Operation(
    name="apply_contracts",
    summary="Make these contracts, all of them together, the set in force.",
    method="POST",
    path="/contract-sets",
    question=ContractsApplied,
    answer=Applied,
    run=_apply,
)
RETURN_TO_CONTRACTS = Operation(
    name="return_to_contracts",
    summary="Apply the contents of an earlier set again; 0 lets no contract be in force.",
    method="POST",
    path="/contract-sets/return",
    question=GoneBack,
    answer=Applied,
    run=_go_back,
)
CONTRACT_OPERATIONS = (
    LIST_CONTRACT_SETS,
    SHOW_CONTRACT_SET,
    SHOW_CONTRACT,
    APPLY_CONTRACTS,
    RETURN_TO_CONTRACTS,
)
