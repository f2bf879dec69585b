"""Which tools a chat uses, as `/tools` shows and switches them."""

from typing import Final

from penstock.cli.exit_codes import CommandFailed

_USAGE: Final = "Write /tools, /tools code on, /tools mcp LABEL on, or /tools off."
_SWITCH: Final = {"on": True, "off": False}


class ChatTools:
    """The code interpreter and MCP servers by their labels; none at first."""

    def __init__(self) -> None:
        self.has_code = False
        self._labels: list[str] = []

    def __bool__(self) -> bool:
        return self.has_code or bool(self._labels)

    def obey(self, text: str) -> None:
        """Switch tools as a line after `/tools` says; an empty one changes nothing."""
        match text.split():
            case []:
                return
            case ["off"]:
                self.has_code = False
                self._labels.clear()
            case ["code", ("on" | "off") as switch]:
                self.has_code = _SWITCH[switch]
            case ["mcp", label, ("on" | "off") as switch]:
                others = [each for each in self._labels if each != label]
                self._labels = [*others, label] if _SWITCH[switch] else others
            case _:
                raise CommandFailed(_USAGE)

    def shown(self) -> str:
        """Return a line that says which tools are on."""
        code = ["code"] if self.has_code else []
        names = [*code, *(f"mcp {label}" for label in self._labels)]
        return f"tools: {', '.join(names) or 'none'}"

    def entries(self) -> list[dict[str, object]]:
        """Return the tools as a Responses request names them.

        Calls of MCP servers run unasked: the user has switched the server on. What its operator
        demands approval of stays so.
        """
        code: list[dict[str, object]] = (
            [{"type": "code_interpreter", "container": {"type": "auto"}}] if self.has_code else []
        )
        servers: list[dict[str, object]] = [
            {"type": "mcp", "server_label": label, "require_approval": "never"}
            for label in self._labels
        ]
        return [*code, *servers]
