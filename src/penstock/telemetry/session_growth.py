"""How a session's prompt grows from turn to turn. Remembers the last turn of recent sessions."""


class SessionGrowth:
    """The prompt tokens of each session's last turn, of about so many sessions.

    In two halves: when the newer one is full it becomes the older one, and what was in that and was
    not heard of since is forgotten. So a session that is heard of again and again stays.
    """

    def __init__(self, sessions_max: int) -> None:
        self._half = (sessions_max + 1) // 2
        self._newer: dict[tuple[str, str], int] = {}
        self._older: dict[tuple[str, str], int] = {}

    def growth(self, account: str, session: str, prompt_tokens: int) -> int | None:
        """By how much the prompt is longer than in the turn before; None for a first turn."""
        place = (account, session)
        before = self._newer.get(place)
        if before is None:
            before = self._older.get(place)
            if len(self._newer) >= self._half:
                self._older, self._newer = self._newer, {}
        self._newer[place] = prompt_tokens
        return None if before is None else prompt_tokens - before

    def remembered(self) -> int:
        """How many turns are remembered; a session may be in both halves."""
        return len(self._newer) + len(self._older)
