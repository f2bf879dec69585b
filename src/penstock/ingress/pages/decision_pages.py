"""`/v1/decisions`: what contracts decided, of the caller's account; of all for operators."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.clock import Clock
from penstock.contracts.decision_book import DecisionBook
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.usage_pages import asked_of_account
from penstock.intake.request_reader import RequestReader
from penstock.wire.resources.decisions import DecisionsAnswer, read_decision_query


class DecisionPages:
    """Reads queries, restricts them to the key's account, and returns rows of the log."""

    def __init__(self, reader: RequestReader, book: DecisionBook, clock: Clock) -> None:
        self._reader = reader
        self._book = book
        self._now = clock.now

    def routes(self) -> list[Route]:
        return [Route("/v1/decisions", self.decisions)]

    async def decisions(self, request: Request) -> Response:
        asked = await asked_of_account(self._reader, request)
        rows = await self._book.find(read_decision_query(asked, self._now()))
        return json_response(DecisionsAnswer(data=[row.answer() for row in rows]))
