"""What a cell's operators decide about requests, beside the rights of their keys."""

import msgspec

from penstock.contracts.current import CurrentContracts
from penstock.contracts.cut_outputs import CutOutputs
from penstock.intake.storage_policy import StoragePolicy


class IntakePolicies(msgspec.Struct, frozen=True):
    """Whether responses are stored, the contracts of workflows, and outputs that these have cut."""

    storage: StoragePolicy
    contracts: CurrentContracts
    outputs: CutOutputs = msgspec.field(default_factory=CutOutputs)
