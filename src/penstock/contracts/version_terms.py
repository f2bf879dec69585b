"""Finds what one version of a contract says of tools: jobs keep the version of their submission."""

from typing import TYPE_CHECKING, Final

from penstock.contracts.contract_error import ContractError
from penstock.contracts.reading import read_contract
from penstock.contracts.set_rows import read_version
from penstock.contracts.tool_rules import tool_terms_of
from penstock.errors import Conflict, NotFound
from penstock.store import Store

if TYPE_CHECKING:
    from penstock.records.tool_terms import ToolTerms

_KEPT_MAX: Final = 1000


class VersionTerms:
    """A keeper's terms by the contracts' labels. A version never changes, so none is read twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_label: dict[str, ToolTerms | None] = {}

    async def find(self, label: str) -> "ToolTerms | None":
        """Return the terms of a label, such as `review@7`; None if that contract has none.

        Conflict if the version is not kept any more: what cannot be judged is not run.
        """
        if not label:
            return None
        if label not in self._by_label:
            terms = await self._read(label)
            if len(self._by_label) >= _KEPT_MAX:
                self._by_label.clear()
            self._by_label[label] = terms
        return self._by_label[label]

    async def _read(self, label: str) -> "ToolTerms | None":
        name, _, version = label.rpartition("@")
        try:
            async with self._store.statement() as statement:
                row = await read_version(statement, name, int(version))
            return tool_terms_of(read_contract(row.document), label)
        except (NotFound, ContractError) as lost:
            raise Conflict(
                f"The contract {label}, under which this job was submitted, cannot be read any"
                " more, so its answer could not be judged. Submit the job again."
            ) from lost
