"""Asks axe-core what of an open page some people cannot read or use."""

from tests.acceptance.client_run import CLIENTS, clients_folder
from tests.acceptance.site_browser import Browser

_RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => [each.id, each.nodes.map(node => node.html.slice(0, 160)).slice(0, 3)]))"""


def axe_source() -> str:
    """The script, as `tests/acceptance/clients/setup-node` installed it."""
    installed = clients_folder("node", CLIENTS / "node" / "package-lock.json")
    return (installed / "node_modules" / "axe-core" / "axe.min.js").read_text()


def serious_findings(browser: Browser, axe: str) -> list[object]:
    """What is serious or critical on the open page: each rule with up to three elements."""
    browser.evaluate(axe)
    found: list[object] = browser.evaluate(_RUN)
    return found
