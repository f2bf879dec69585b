"""The connections of the operator's listener, which serves no inference."""

from penstock.clock import new_id
from penstock.errors import Error, NotFound
from penstock.ingress import error_response
from penstock.ingress.http.exchange import Exchange
from penstock.ingress.http.worker_connections import WorkerConnections
from penstock.intake.caller_headers import CallerHeaders


class OperatorConnections(WorkerConnections):
    """Bounds connections as a gateway does, and refuses what only a gateway serves."""

    async def serve(self, exchange: Exchange) -> None:
        """Refuse an inference request: this is not a gateway."""
        self.refuse(exchange, NotFound("No such path: inference is served by gateways."))

    def refuse(self, exchange: Exchange, error: Error) -> None:
        """Answer with an error."""
        self.drop_body(exchange)
        if exchange.response_complete:
            return
        request_id = new_id()
        pairs = [
            (b"content-type", b"application/json"),
            (b"x-request-id", request_id.encode()),
            *error_response.headers(error),
        ]
        lines = b"".join([b"%s: %s\r\n" % pair for pair in pairs])
        body = error_response.body(error, request_id, is_workers_ai=False)
        exchange.answer(error.status, lines, body)

    def account_of(self, headers: CallerHeaders) -> str:
        """Return that no account is known: operators have none."""
        return ""
