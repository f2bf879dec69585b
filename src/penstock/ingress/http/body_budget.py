"""Counts the bytes of request bodies that one worker holds: in all, per account, for unknown keys.

A body counts from its first byte until its request's key is known and the body is read. Callers
whose key this worker does not know share a small part of the whole, and no account may have all of
it, so that bodies that never become complete shut out no other caller.
"""

from penstock.errors import Error, OverLimit, Overloaded
from penstock.ingress.settings import IngressSettings


class HeldBody:
    """The counted bytes of one request's body. `account` is "" while its key is not known."""

    def __init__(self, account: str = "") -> None:
        self.account = account
        self.body_bytes = 0


class BodyBudget:
    """Limits the body bytes of one worker. `release` must follow `hold`; a second does nothing."""

    def __init__(self, settings: IngressSettings) -> None:
        whole = settings.bodies_bytes_max
        self._whole_max = whole
        self._unknown_max = int(whole * settings.bodies_share_unknown_max)
        # Whatever the share is, one body of the largest size fits.
        share = int(whole * settings.bodies_share_per_account_max)
        self._account_max = max(share, min(whole, settings.body_bytes_max))
        self._by_account: dict[str, int] = {}
        # All bodies that are held.
        self.held_bytes = 0

    def hold(self, body: HeldBody, count: int) -> Error | None:
        """Count `count` more bytes of a body; return an error if they exceed a limit.

        Refused bytes are counted too, until the body is released.
        """
        if not count:
            return None
        body.body_bytes += count
        self.held_bytes += count
        account = body.account
        of_account = self._by_account.get(account, 0) + count
        self._by_account[account] = of_account
        if self.held_bytes > self._whole_max:
            return Overloaded(retry_after_seconds=1)
        if of_account <= (self._account_max if account else self._unknown_max):
            return None
        if not account:
            return Overloaded(
                "This gateway holds as many bytes of requests with unknown keys as it may.",
                retry_after_seconds=1,
            )
        return OverLimit(
            f"This account is sending more than {self._account_max} bytes of requests at a time.",
            retry_after_seconds=1,
        )

    def release(self, body: HeldBody) -> None:
        """Stop counting a body that was read, refused or abandoned."""
        count, body.body_bytes = body.body_bytes, 0
        if not count:
            return
        self.held_bytes -= count
        left = self._by_account[body.account] - count
        if left:
            self._by_account[body.account] = left
        else:
            del self._by_account[body.account]
