"""What a screen shows or does, a command prints or does: both run the same operations."""

import ast
import re
from importlib import import_module
from pathlib import Path

from penstock.console.operation import Operation

_PACKAGE = Path(__file__).parents[3] / "src" / "penstock"
_SCREENS = _PACKAGE / "console" / "screens"
_COMMANDS = _PACKAGE / "cli"
_FROM = "penstock.console."
_READ = "read"
_ROOM = re.compile(r"\bpage\.rooms\.(\w+)")


def _constants(place: Path) -> dict[str, str]:
    """The operations that a module imports: their names, under those of their constants."""
    found = {}
    for node in ast.walk(ast.parse(place.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(_FROM):
            continue
        module = import_module(node.module or "")
        for each in node.names:
            value = getattr(module, each.name)
            if isinstance(value, Operation):
                found[each.asname or each.name] = value.name
    return found


def _used(folder: Path) -> dict[str, str]:
    """The operations that a folder's modules use, not only import, and where."""
    used = {}
    for place in sorted(folder.rglob("*.py")):
        constants = _constants(place)
        for node in ast.walk(ast.parse(place.read_text())):
            if isinstance(node, ast.Name) and node.id in constants:
                used[constants[node.id]] = str(place.relative_to(_PACKAGE))
    return used


def _unnamed_reads(folder: Path) -> list[str]:
    """The calls of `page.read` whose operation is not a constant of an operations' module."""
    wrong = []
    for place in sorted(folder.rglob("*.py")):
        constants = _constants(place)
        for node in ast.walk(ast.parse(place.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            of = node.func.value
            if node.func.attr != _READ or not isinstance(of, ast.Name) or of.id != "page":
                continue
            operation = node.args[0]
            if not isinstance(operation, ast.Name) or operation.id not in constants:
                wrong.append(f"{place.name}:{node.lineno}")
    return wrong


def _other_facts(folder: Path) -> list[str]:
    """The places where a screen takes more than the time out of `page.rooms`."""
    return [
        f"{place.name}: {found}"
        for place in sorted(folder.rglob("*.py"))
        for found in _ROOM.findall(place.read_text())
        if found != "clock"
    ]


def test_screens_read_by_operations_alone() -> None:
    assert _unnamed_reads(_SCREENS) == []
    assert _other_facts(_SCREENS) == []


def test_each_operation_of_a_screen_is_one_of_a_command_too() -> None:
    of_screens, of_commands = _used(_SCREENS), _used(_COMMANDS)
    assert len(of_screens) > 20
    missing = {name: place for name, place in of_screens.items() if name not in of_commands}
    assert missing == {}, "no command prints or does this"
