"""What contracts did in a period: requests under each, and decisions by kind and verdict."""

from datetime import datetime

import msgspec


class DecisionCount(msgspec.Struct, frozen=True):
    """How many decisions of one kind and verdict a contract made."""

    kind: str
    verdict: str
    # Observed ones did not happen: the contract only observes.
    is_observed: bool
    count: int


class ContractEffects(msgspec.Struct, frozen=True, kw_only=True):
    """One contract, with its version; an empty name has the requests that no contract binds."""

    contract: str
    requests: int
    decisions: list[DecisionCount] = []


class ContractEffectsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Contracts, those with most requests first. A request that was refused ran under none."""

    since: datetime
    until: datetime
    contracts: list[ContractEffects]
    object: str = "contract.effects"
