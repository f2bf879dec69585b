"""Compares contracts by what they mean, not by how they are written. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from penstock.contracts.document import Contract

Means = Literal["", "stricter", "looser"]

_ABSENT: Final = "none"
# Bounds of which a smaller value allows less; without one, everything is allowed.
_BOUNDS: Final = ("tokens_max", "choices_max", "bytes_max")
# Amounts of a budget end with these; dollars are texts here.
_AMOUNTS: Final = ("_per_minute", "_per_day", "_per_month")
# Lists of tools: whether more entries allow more.
_LOOSER_WITH: Final = {"tools.allow": True, "tools.deny": False}
# Of choices between two, the one that allows less.
_STRICT_VALUES: Final = {"tools.default": "deny", "tools.text_calls": "deny"}


class Difference(msgspec.Struct, frozen=True):
    """One key of a contract that changes. `means` says whether more or less is allowed then."""

    key: str
    before: str
    after: str
    means: Means = ""


class ContractChange(msgspec.Struct, frozen=True):
    """What becomes of one contract."""

    name: str
    kind: Literal["added", "removed", "changed"]
    differences: list[Difference] = []


def differences(
    before: Mapping[str, Contract], after: Mapping[str, Contract]
) -> list[ContractChange]:
    """Return what changes between two sets, by the contracts' names; equal ones are left out."""
    changes = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        kind: Literal["added", "removed", "changed"] = "changed"
        if old is None or new is None:
            kind = "added" if old is None else "removed"
        changes.append(ContractChange(name, kind, _compared(old, new)))
    return changes


def _compared(old: Contract | None, new: Contract | None) -> list[Difference]:
    one, other = _flat(old), _flat(new)
    found = []
    for key in sorted({*one, *other}):
        before, after = one.get(key), other.get(key)
        if before != after and key not in ("name", "schema"):
            means = _means(key, before, after) if old is not None and new is not None else ""
            found.append(Difference(key, _shown(before), _shown(after), means))
    return found


def _means(key: str, before: Any, after: Any) -> Means:  # noqa: ANN401 - any value of TOML
    if key == "mode":
        return "looser" if after == "observe" else "stricter"
    if key in _LOOSER_WITH:
        return _of_list(key, before, after)
    if key in _STRICT_VALUES:
        return "stricter" if after == _STRICT_VALUES[key] else "looser"
    if key.endswith(_AMOUNTS):
        before, after = (None if each is None else Decimal(each) for each in (before, after))
    elif key.startswith("objectives") or key.rpartition(".")[2] not in _BOUNDS:
        return ""
    if before is None or after is None:
        return "stricter" if before is None else "looser"
    return "stricter" if after < before else "looser"


def _of_list(key: str, before: list[str] | None, after: list[str] | None) -> Means:
    """Compare lists of patterns; one that gains some and loses others is neither."""
    old, new = set(before or ()), set(after or ())
    if not (old <= new or new <= old):
        return ""
    return "looser" if (old < new) is _LOOSER_WITH[key] else "stricter"


def _flat(contract: Contract | None) -> dict[str, Any]:
    """Return a contract's values by their dotted keys; rules as one value, because order counts."""
    found: dict[str, Any] = {}
    if contract is not None:
        _flatten(msgspec.to_builtins(contract, order="deterministic"), "", found)
    return found


def _flatten(value: Any, key: str, found: dict[str, Any]) -> None:  # noqa: ANN401 - any value of TOML
    if not isinstance(value, dict):
        if value is not None and value not in ((), []):
            found[key] = value
        return
    for name, each in value.items():
        _flatten(each, f"{key}.{name}" if key else name, found)


def _shown(value: Any) -> str:  # noqa: ANN401 - any value of TOML
    if value is None:
        return _ABSENT
    return value if isinstance(value, str) else msgspec.json.encode(_without_none(value)).decode()


def _without_none(value: Any) -> Any:  # noqa: ANN401 - any value of TOML
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list | tuple) else value
