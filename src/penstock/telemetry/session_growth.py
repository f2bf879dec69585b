"""Measures how a session's prompt grows from turn to turn, for recent sessions."""


class SessionGrowth:
    """Remembers the prompt tokens of the last turn of about `sessions_max` sessions.

    It has two halves: when the newer half is full it replaces the older one, which forgets the
    sessions that had no turn since. So a session with frequent turns stays.
    """

    def __init__(self, sessions_max: int) -> None:
        self._half = (sessions_max + 1) // 2
        self._newer: dict[tuple[str, str], int] = {}
        self._older: dict[tuple[str, str], int] = {}

    def growth(self, account: str, session: str, prompt_tokens: int) -> int | None:
        """Return the prompt's growth since the previous turn, or None for a first turn."""
        place = (account, session)
        before = self._newer.get(place)
        if before is None:
            before = self._older.get(place)
            if len(self._newer) >= self._half:
                self._older, self._newer = self._newer, {}
        self._newer[place] = prompt_tokens
        return None if before is None else prompt_tokens - before

    def remembered(self) -> int:
        """Return how many turns are remembered; a session may be in both halves."""
        return len(self._newer) + len(self._older)
