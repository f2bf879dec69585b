"""How a session's prompt grows from turn to turn. Remembers the last turn of recent sessions."""

from collections import OrderedDict


class Turns:
    """The prompt tokens of each session's last turn; the session longest unheard of goes first."""

    def __init__(self, sessions_max: int) -> None:
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._sessions_max = sessions_max

    def growth(self, account: str, session: str, prompt_tokens: int) -> int | None:
        """By how much the prompt is longer than in the turn before; None for a first turn."""
        before = self._last.pop((account, session), None)
        self._last[account, session] = prompt_tokens
        if len(self._last) > self._sessions_max:
            self._last.popitem(last=False)
        return None if before is None else prompt_tokens - before
