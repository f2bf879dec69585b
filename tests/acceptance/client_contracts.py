"""Contracts by which agents have no shell: each binds the workflow of its name, and no other."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from tests.acceptance.cli_run import run
from tests.acceptance.client_cell import ClientCell

ALLOWED = ("get_goal", "weather", "write")
# What happens to a forbidden call, and to a forbidden tool that is offered.
ERROR, NOTE, STRIP = "no-shell", "no-shell-noted", "no-shell-stripped"
_TERMS = {ERROR: ("error", "leave"), NOTE: ("note", "leave"), STRIP: ("error", "strip")}


class _Offering(msgspec.Struct):
    tools: Raw = Raw()


def apply_contracts(state: Path, folder: Path) -> None:
    """Apply them to the cell of a state folder; its gateway decides by them afterwards."""
    for name, (on_forbidden, offered) in _TERMS.items():
        tools = (
            f'[tools]\ndefault = "deny"\nallow = {msgspec.json.encode(ALLOWED).decode()}\n'
            f'on_forbidden = "{on_forbidden}"\noffered = "{offered}"\n'
        )
        (folder / f"{name}.toml").write_text(f'schema = 1\nname = "{name}"\n{tools}')
    applied = run(state, "contracts", "apply", str(folder), "--wait")
    assert applied.exit_code == 0, applied.output


def check_words(told: str, workflow: str, tool: str) -> None:
    """A person or an agent that reads this knows what was forbidden, by what, and what is not."""
    assert f"The contract {workflow}@1 forbids the tool `{tool}`" in told
    assert f"The tools that are allowed: {', '.join(ALLOWED)}." in told


def turns(cell: ClientCell) -> list[dict[str, Any]]:
    """The requests with tools that the engine got. OpenCode asks for titles without any."""
    return [each for each in cell.requests() if each["body"].get("tools")]


def offered(turn: dict[str, Any]) -> set[str]:
    """The names of the tools in a request to the engine, by chat or by Responses."""
    return {(tool.get("function") or tool)["name"] for tool in turn["body"]["tools"]}


def check_equal_tools(first: dict[str, Any], second: dict[str, Any]) -> None:
    """By bytes: a prompt that begins otherwise is not found in the engine's cache."""
    one, other = (
        bytes(msgspec.json.decode(each["text"], type=_Offering).tools) for each in (first, second)
    )
    assert one == other != b""
