"""Asks axe-core what of an open page some people cannot read or use."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.acceptance.client_run import CLIENTS, clients_folder
from tests.acceptance.site_browser import Browser

WIDTHS: Final = (320, 1280)
SCHEMES: Final = ("light", "dark")
# One picture of each width and of each scheme, where time is short.
_DRAWN: Final = ((320, "dark"), (1280, "light"))
_HEIGHT: Final = 900
_PHONE_MAX: Final = 700
# A phone's window grows with what is too wide for it, so it says nothing.
_WIDE: Final = "document.documentElement.scrollWidth"
_RUN: Final = """axe.run(document, {resultTypes: ['violations'], ...%s}).then(found =>
    found.violations.filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => [each.id, each.nodes.map(node => node.html.slice(0, 160)).slice(0, 3)]))"""
# All that a scheme can change.
_COLOURS: Final[Mapping[str, object]] = {"runOnly": ["color-contrast"]}

# Looks at the open page, which has a name for its pictures, and returns what is wrong.
Look = Callable[[str], list[object]]


def axe_source() -> str:
    """The script, as `tests/acceptance/clients/setup-node` installed it."""
    installed = clients_folder("node", CLIENTS / "node" / "package-lock.json")
    return (installed / "node_modules" / "axe-core" / "axe.min.js").read_text()


def serious_findings(
    browser: Browser, axe: str, options: Mapping[str, object] | None = None
) -> list[object]:
    """What is serious or critical on the open page: each rule with up to three elements."""
    if not browser.evaluate("!!window.axe"):
        browser.evaluate(axe)
    found: list[object] = browser.evaluate(_RUN % json.dumps(options or {}))
    return found


def unreadable(browser: Browser, axe: str, picture: Path, *, is_full: bool) -> list[object]:
    """Return what is serious or critical, or too wide, on the open page; draw the page.

    In the second scheme only the colours are judged, unless `is_full`.
    """
    wrong: list[object] = []
    for width in WIDTHS:
        browser.resize(width, _HEIGHT, is_phone=width < _PHONE_MAX)
        for scheme in SCHEMES:
            browser.prefer(scheme)
            browser.settle()
            if is_full or (width, scheme) in _DRAWN:
                name = f"{picture.name}-{width}-{scheme}.png"
                browser.picture(picture.with_name(name), is_whole=True)
            options = None if is_full or scheme == SCHEMES[0] else _COLOURS
            wrong += [(width, scheme, each) for each in serious_findings(browser, axe, options)]
        wide = browser.evaluate(_WIDE)
        if wide > width:
            wrong.append((width, f"{wide} px wide"))
    browser.prefer(SCHEMES[0])
    return wrong
