"""Listens to a fetch of weights in a test, and stops it in the middle."""


class StoppingWatch:
    """Notes how many bytes have come, and stops the fetch at so many of them."""

    def __init__(self, total: int, stop_at: int = 2**60) -> None:
        self.heard: list[int] = []
        self._total = total
        self._stop_at = stop_at

    def on_bytes(self, done: int, total: int) -> None:
        assert total == self._total
        self.heard.append(done)

    def on_wait(self) -> None:
        raise AssertionError("nobody else fetches")

    def is_stopped(self) -> bool:
        return bool(self.heard) and self.heard[-1] >= self._stop_at
