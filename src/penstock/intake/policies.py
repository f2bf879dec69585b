"""What a cell's operators decide about requests, beside the rights of their keys."""

import msgspec

from penstock.contracts.current import CurrentContracts
from penstock.intake.storage_policy import StoragePolicy


class IntakePolicies(msgspec.Struct, frozen=True):
    """Whether responses are stored, and the contracts of workflows."""

    storage: StoragePolicy
    contracts: CurrentContracts
