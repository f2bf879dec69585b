"""What all filters of tool calls share: how much each holds, and what it logs."""

from typing import Final

from penstock.contracts.settings import ContractsSettings

_COMMENT_SECONDS: Final = 15.0
_DEFAULTS: Final = ContractsSettings()


class ToolCallLimits:
    """Bytes of events that a filter holds, seconds without any, whether allowed calls are logged.

    A plain class, which compiled code reads.
    """

    def __init__(
        self,
        held_bytes_max: int = _DEFAULTS.held_bytes_max,
        comment_seconds: float = _COMMENT_SECONDS,
        *,
        logs_allowed: bool = _DEFAULTS.log_allowed,
    ) -> None:
        self.held_bytes_max = held_bytes_max
        self.comment_seconds = comment_seconds
        self.logs_allowed = logs_allowed


def tool_call_limits(
    settings: ContractsSettings, comment_seconds: float = _COMMENT_SECONDS
) -> ToolCallLimits:
    return ToolCallLimits(
        settings.held_bytes_max, comment_seconds, logs_allowed=settings.log_allowed
    )
