"""The set of contracts that is in force in this process."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.contracts.compiling import ContractSet


class CurrentContracts:
    """Holds the set that requests are decided by; the mirror replaces it whole."""

    def __init__(self, in_force: "ContractSet | None" = None) -> None:
        # None where the cell has no contract: then a request pays one test for them.
        self.in_force = in_force
