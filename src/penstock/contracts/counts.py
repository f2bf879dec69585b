"""A worker's counters of what contracts did."""

from collections import Counter

from penstock.contracts.deciding import ContractDecision


class ContractCounts:
    """Plain numbers, which the collector adds up over the workers."""

    def __init__(self) -> None:
        # By "contract kind mode".
        self.effects: Counter[str] = Counter()
        self.unknown_tasks = 0

    def add(self, decision: ContractDecision | None) -> None:
        """Count what was decided of one request that is answered."""
        if decision is None:
            return
        contract = decision.contract
        for effect in decision.effects:
            self.effects[f"{contract.name} {effect.kind} {contract.contract.mode}"] += 1
        if decision.unknown_task:
            self.unknown_tasks += 1
