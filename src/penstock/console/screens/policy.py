"""Screen 2: is policy enforced, by which contracts, and what did they change and refuse?"""

from typing import Final

from penstock.console.contract_operations import LIST_CONTRACT_SETS
from penstock.console.decision_operations import (
    LIST_DECISIONS,
    SHOW_CONTRACT_EFFECTS,
    DecisionsAsked,
    EffectsAsked,
)
from penstock.console.operation import Nothing
from penstock.console.screens.page import Context, PageRequest
from penstock.wire.resources.contract_effects import ContractEffects

_LATEST: Final = "20"


async def read_policy(page: PageRequest) -> Context:
    """Read the sets, what they did, the latest refusals, and the latest acts of operators."""
    view = page.view
    sets = await page.read(LIST_CONTRACT_SETS, Nothing())
    asked = EffectsAsked(
        since=view.since, until=view.until, account=view.account, workflow=view.workflow
    )
    effects = await page.read(SHOW_CONTRACT_EFFECTS, asked)
    period = {"since": view.since, "until": view.until, "limit": _LATEST}
    denied = await page.read(
        LIST_DECISIONS,
        DecisionsAsked(**period, verdict="deny", account=view.account, workflow=view.workflow),
    )
    acts = await page.read(LIST_DECISIONS, DecisionsAsked(**period, kind="operator"))
    whole = sum(each.requests for each in effects.contracts)
    return {
        "sets": sets,
        "behind": [each for each in sets.workers if each.set != sets.in_force],
        "rows": [_row(each, whole) for each in effects.contracts],
        "bound": _share(sum(each.requests for each in effects.contracts if each.contract), whole),
        "denied": [each for each in denied.data if each.kind != "operator"],
        "acts": acts.data,
    }


def _row(each: ContractEffects, whole: int) -> dict[str, object]:
    def count(verdict: str, *, is_observed: bool = False) -> int:
        return sum(
            one.count
            for one in each.decisions
            if one.verdict == verdict and one.is_observed is is_observed
        )

    return {
        "contract": each.contract,
        "requests": each.requests,
        "share": _share(each.requests, whole),
        "changed": count("change"),
        "refused": count("deny"),
        "observed": count("change", is_observed=True) + count("deny", is_observed=True),
        "kinds": sorted({one.kind for one in each.decisions}),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
