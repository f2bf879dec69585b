"""Screen 3: what changed in spending, and why."""

import functools
from typing import Final

from markupsafe import Markup

from penstock.console.charts import WaterfallStep
from penstock.console.formats import signed_amount
from penstock.console.screens.page import Context, PageRequest
from penstock.console.usage_operations import SHOW_DIFFERENCE, DifferenceAsked
from penstock.wire.resources.usage_difference import ChangeParts

_DOLLAR: Final = 10**9
_LEAP: Final = 10
_NO_CHANGE: Final = "$0"
_MINUS: Final = "\u2212"


async def read_spend(page: PageRequest) -> Context:
    """Read the comparison of two periods."""
    view = page.view
    asked = DifferenceAsked(
        since=view.since,
        until=view.until,
        against=view.get("against") or None,
        by=view.get("by") or None,
        account=view.account,
        workflow=view.workflow,
    )
    found = await page.read(SHOW_DIFFERENCE, asked)
    total, rows = found.difference.total, found.difference.rows
    # All amounts have the same digits: cents, or millionths where no total reaches a dollar.
    is_fine = max(total.before_nanousd, total.after_nanousd) < _DOLLAR
    shown = functools.partial(_shown, is_fine=is_fine)

    def amount(nanousd: int) -> str:
        text = shown(nanousd)
        return text.removeprefix("+")

    parts = [_parts(row.parts_nanousd, is_fine=is_fine) for row in rows]
    of_total = _parts(total.parts_nanousd, is_fine=is_fine)
    # A cause that changed nothing anywhere has no column and no step.
    causes = [
        each
        for each in ChangeParts.__struct_fields__
        if any(cells[each] != _NO_CHANGE for cells in (of_total, *parts))
    ]
    steps = [(each, getattr(total.parts_nanousd, each)) for each in causes]
    before, after = total.before_nanousd, total.after_nanousd
    return {
        "is_lead": bool(rows) and _is_leap(rows[0].change_nanousd, before),
        "found": found,
        "causes": causes,
        "amount": amount,
        "change": shown,
        "rows": list(zip(rows, parts, strict=True)),
        "totals": of_total,
        "steps": [
            WaterfallStep("before", before / _DOLLAR, amount(before)),
            *(WaterfallStep(name, size / _DOLLAR, shown(size)) for name, size in steps),
            WaterfallStep("now", after / _DOLLAR, amount(after)),
        ],
    }


def _is_leap(change_nanousd: int, before_nanousd: int) -> bool:
    """Return whether one group's cost rose by a tenth of what all of them cost before."""
    return change_nanousd > 0 and change_nanousd * _LEAP >= before_nanousd


def _shown(nanousd: int, *, is_fine: bool) -> str:
    """Return a change with its sign and unit, also one that rounds to nothing."""
    text = signed_amount(nanousd, is_fine=is_fine)
    return _NO_CHANGE if text == "0" else f"{text[0]}${text[1:]}".replace("-", _MINUS)


def _parts(parts: ChangeParts, *, is_fine: bool) -> dict[str, Markup | str]:
    """Return each part of a change with its sign; large ones stand out."""
    sizes = {cause: getattr(parts, cause) for cause in parts.__struct_fields__}
    total = sum(map(abs, sizes.values()))
    cells: dict[str, Markup | str] = {}
    for cause, size in sizes.items():
        text = _shown(size, is_fine=is_fine)
        is_large = text != _NO_CHANGE and abs(size) * 2 > total
        cells[cause] = Markup("<strong>{}</strong>").format(text) if is_large else text
    return cells
