"""Finds conditions that cannot hold, and rules that an earlier rule hides. Pure."""

from typing import Any, Final

import msgspec

from penstock.contracts.document import When

_RANGES: Final = ("tools", "opening_bytes", "output_tokens")
# Of what every request has; not every request bounds its output.
_AT_LEAST: Final = ("tools_min", "opening_bytes_min")


def fault_in_conditions(when: When) -> str:
    """Return why these conditions can never hold, or always do; "" if neither is so."""
    given = _given(when)
    if not given:
        return "has no condition: it would match every request, as `models.default` does"
    for name in _AT_LEAST:
        if given.get(name) == 0:
            return f"{name} = 0 holds for every request"
    for name in _RANGES:
        least, most = given.get(f"{name}_min"), given.get(f"{name}_max")
        if least is not None and most is not None and least > most:
            return f"{name}_min = {least} is more than {name}_max = {most}: nothing can match"
    tools = given.get("tools")
    if tools is not None and ("tools_min" in given or "tools_max" in given):
        return "`tools` is an exact number: tools_min or tools_max beside it says it twice"
    if "tool" in given and 0 in (tools, given.get("tools_max")):
        return "a request without tools has no tool of that name: nothing can match"
    return ""


def covers(wide: When, narrow: When) -> bool:
    """Return whether every request that fulfils `narrow` surely fulfils `wide`."""
    wanted, given = _given(wide), _given(narrow)
    return all(_holds(name, value, given) for name, value in wanted.items())


def _holds(name: str, value: object, given: dict[str, object]) -> bool:
    stem = name.removesuffix("_max").removesuffix("_min")
    # An exact number lies within a range.
    found = given.get(name, given.get(stem) if stem != name else None)
    if found is None:
        return False
    if isinstance(value, int) and isinstance(found, int) and name.endswith("_max"):
        return found <= value
    if isinstance(value, int) and isinstance(found, int) and name.endswith("_min"):
        return found >= value
    return found == value


def _given(when: When) -> dict[str, Any]:
    return {
        name: value for name, value in msgspec.structs.asdict(when).items() if value is not None
    }
