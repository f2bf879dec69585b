"""Connections whose every request is answered with "ok", for tests of what lies below HTTP."""

import asyncio

from penstock.clock import Clock, TimerWheel
from penstock.errors import Error, Unauthenticated
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.http.worker_connections import WorkerConnections
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders


class OkConnections(WorkerConnections):
    """Keeps the bodies of requests, and answers "ok"."""

    def __init__(self, settings: IngressSettings, clock: Clock) -> None:
        super().__init__(settings, TimerWheel(clock), clock)
        self.bodies: list[bytes] = []
        self.refused: list[int] = []

    async def serve(self, exchange: Exchange) -> None:
        await asyncio.sleep(0)
        self.body_budget.release(exchange)
        self.bodies.append(exchange.take_body())
        exchange.answer(200, b"", b"ok")

    def account_of(self, headers: CallerHeaders) -> str:
        """A secret that begins with `sk` is a key of the account of that name."""
        try:
            secret = headers.secret()
        except Unauthenticated:
            return ""
        return secret.decode() if secret.startswith(b"sk") else ""

    def refuse(self, exchange: Exchange, error: Error) -> None:
        self.refused.append(error.status)
        exchange.answer(error.status, b"", b"")
