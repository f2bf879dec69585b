"""Applies contracts, and waits until every gateway worker decides by them."""

import asyncio
from typing import Final

from penstock.cli.administration import Administration
from penstock.cli.exit_codes import CommandFailed
from penstock.console.contract_operations import (
    APPLY_CONTRACTS,
    LIST_CONTRACT_SETS,
    RETURN_TO_CONTRACTS,
    ContractsApplied,
    ContractWorker,
    GoneBack,
)
from penstock.console.operation import Nothing
from penstock.contracts.set_book import Applied

# Workers report themselves every five seconds.
_WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.5


async def apply_contracts(
    desk: Administration,
    documents: list[str] | None,
    number: int | None,
    message: str,
    *,
    is_waiting: bool,
    is_forced: bool,
) -> Applied:
    """Apply documents, or an earlier set, on top of the set that is in force now."""
    base = (await desk.run(LIST_CONTRACT_SETS, Nothing())).in_force
    if documents is not None:
        asked = ContractsApplied(documents=documents, message=message, base=base, force=is_forced)
        applied = await desk.run(APPLY_CONTRACTS, asked)
    else:
        back = GoneBack(number=number or 0, message=message, base=base, force=is_forced)
        applied = await desk.run(RETURN_TO_CONTRACTS, back)
    if is_waiting:
        await _wait(desk, applied.number)
    return applied


async def _wait(desk: Administration, number: int) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + _WAIT_SECONDS
    while True:
        workers = (await desk.run(LIST_CONTRACT_SETS, Nothing())).workers
        behind = [each for each in workers if each.set != number]
        if not behind:
            return
        if loop.time() > until or any(each.problem for each in behind):
            raise CommandFailed(f"Set {number} is applied, but {_said(behind)}")
        await asyncio.sleep(_POLL_SECONDS)


def _said(behind: list[ContractWorker]) -> str:
    first = behind[0]
    why = first.problem or f"it decides by set {first.set}"
    rest = f", and {len(behind) - 1} more" if len(behind) > 1 else ""
    return f"gateway worker {first.holder} on {first.host} does not have it{rest}: {why}"
