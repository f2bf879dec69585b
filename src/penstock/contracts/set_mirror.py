"""A gateway's copy of the set of contracts in force, compiled with its own catalogue.

A set that cannot be compiled here is not taken: the one before stays, `problem` says why, and the
set is tried again only when another one was applied.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.catalogue import Catalogue
from penstock.contracts.compiling import ContractSet, compile_set
from penstock.contracts.contract_error import ContractError
from penstock.contracts.current import CurrentContracts
from penstock.contracts.set_rows import read_mark, read_rows
from penstock.contracts.settings import ContractsSettings
from penstock.errors import StoreUnavailable
from penstock.store import Store

if TYPE_CHECKING:
    from datetime import datetime

logger = logging.getLogger(__name__)


# Returns when the limits that were written with a set hold here.
AwaitLimits = Callable[[], Awaitable[None]]


class ContractMirror:
    """Keeps `current` up to date: `load` once, then `run`.

    `run` takes a set only when `await_limits` has returned: a workflow's first request under a new
    contract is within its budget. `load` does not wait, because limits are loaded after it.
    """

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        settings: ContractsSettings,
        await_limits: AwaitLimits,
    ) -> None:
        self.current = CurrentContracts()
        # Why the set in force is not taken here; "" if it is.
        self.problem = ""
        self._store = store
        self._catalogue = catalogue
        self._refresh_seconds = settings.refresh_seconds
        self._await_limits = await_limits
        # None until the set in force is looked at as a whole.
        self._seen: tuple[int, datetime | None] | None = (0, None)

    @property
    def number(self) -> int:
        """The set by which this worker decides; 0 is none."""
        in_force = self.current.in_force
        return 0 if in_force is None else in_force.number

    async def load(self) -> None:
        """Take the set in force; ContractError if it cannot be used here.

        A worker that began without contracts would let requests do what they forbid.
        """
        await self._refresh(is_first=True)
        if self.problem:
            raise ContractError(
                self.problem, advice="Apply a set that fits this gateway, or mend its catalogue"
            )

    async def run(self) -> None:
        """Follow changes until cancelled; while Postgres is away, the set stays as it is."""
        while True:
            await asyncio.sleep(self._refresh_seconds)
            try:
                await self._refresh()
            except StoreUnavailable:
                logger.debug("contracts not refreshed", extra={"action": "contracts_unread"})
            except Exception:
                # Catch everything at the loop's top: what was decided by goes on.
                logger.exception("contracts not refreshed", extra={"action": "contracts_unread"})

    async def _refresh(self, *, is_first: bool = False) -> None:
        async with self._store.statement() as statement:
            mark = await read_mark(statement)
        # Not `>`: a database that was restored may be at an earlier set.
        if mark == self._seen:
            return
        number, _ = mark
        async with self._store.statement() as statement:
            rows = await read_rows(statement, number)
        if number and not rows:
            # Others were applied meanwhile, and this one is deleted: look again, and never take
            # that for a cell without contracts.
            self.problem, self._seen = f"contracts set {number}: it is deleted", None
            return
        # Hundreds of contracts take longer than requests should wait.
        compiled, problem = await asyncio.to_thread(
            _compiled, number, [(row.version, row.document) for row in rows], self._catalogue
        )
        self.problem = problem
        if problem:
            logger.error(
                "contracts refused", extra={"action": "contracts_refused", "problem": problem}
            )
        else:
            if not is_first:
                await self._await_limits()
            self.current.in_force = compiled
            logger.info("contracts applied", extra={"action": "contracts_applied", "set": number})
        self._seen = mark


def _compiled(
    number: int, rows: list[tuple[int, str]], catalogue: Catalogue
) -> tuple[ContractSet | None, str]:
    try:
        return compile_set(number, rows, catalogue), ""
    except ContractError as error:
        return None, f"contracts set {number}: {error}"
    except Exception as error:
        # A set that was never checked: without a problem, it would be tried for ever, and unseen.
        logger.exception("contracts not compiled", extra={"action": "contracts_refused"})
        return None, f"contracts set {number}: {error!r}"
