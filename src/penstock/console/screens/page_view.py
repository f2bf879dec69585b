"""What a page shows: its period and filters, all of it in an address that can be sent on."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus

import msgspec

from penstock.errors import InvalidRequest

PERIODS: Final = ("1h", "24h", "7d", "30d")
PERIOD_DEFAULT: Final = "24h"
_VALUE_CHARS_MAX: Final = 256
_PARAMETERS_MAX: Final = 20
# A page has hundreds of links, which repeat its period, its accounts and its workflows.
_quoted: Final = lru_cache(maxsize=1000)(quote_plus)


class PageView(msgspec.Struct, frozen=True, kw_only=True):
    """The page's path and the parameters of its address."""

    path: str
    parameters: dict[str, str] = {}

    @property
    def period(self) -> str:
        """Return the named period; "" where two times are given instead."""
        if self.since_given or self.until_given:
            return ""
        return self.parameters.get("period", PERIOD_DEFAULT)

    @property
    def since(self) -> str | None:
        return self.since_given or self.period or None

    @property
    def until(self) -> str | None:
        return self.until_given or None

    @property
    def since_given(self) -> str:
        return self.parameters.get("since", "")

    @property
    def until_given(self) -> str:
        return self.parameters.get("until", "")

    @property
    def account(self) -> str | None:
        return self.parameters.get("account") or None

    @property
    def workflow(self) -> str | None:
        return self.parameters.get("workflow") or None

    def get(self, name: str, default: str = "") -> str:
        return self.parameters.get(name, default)

    def link(self, path: str | None = None, /, **changes: str | None) -> str:
        """Return an address that keeps period and filters, with some parameters changed.

        To another page only period, account and workflow go along.
        """
        kept = dict(self.parameters)
        if path is not None and path != self.path:
            shared = ("period", "since", "until", "account", "workflow")
            kept = {name: kept[name] for name in shared if name in kept}
        if changes.get("period"):
            kept.pop("since", None)
            kept.pop("until", None)
        for name, value in changes.items():
            if value:
                kept[name] = value
            else:
                kept.pop(name, None)
        query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in kept.items())
        return (path or self.path) + (f"?{query}" if query else "")


def read_view(path: str, given: Iterable[tuple[str, str]]) -> PageView:
    """Read the parameters of an address; refuse one that no page could have made."""
    parameters: dict[str, str] = {}
    for name, value in given:
        if name in parameters or len(parameters) >= _PARAMETERS_MAX:
            raise InvalidRequest("The address has a parameter twice, or too many.", param=name)
        if len(name) > _VALUE_CHARS_MAX or len(value) > _VALUE_CHARS_MAX or "\0" in value:
            raise InvalidRequest("The address has a parameter that is too long.", param="")
        parameters[name] = value
    view = PageView(path=path, parameters=parameters)
    if view.period and view.period not in PERIODS:
        raise InvalidRequest(f"`period` must be one of {', '.join(PERIODS)}.", param="period")
    return view
