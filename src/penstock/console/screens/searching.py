"""Finds the page that somebody looks for by an id or a name."""

from typing import Final
from urllib.parse import urlencode

from penstock.console.incident_operations import (
    EXPLAIN_REQUEST,
    LIST_REQUESTS,
    RequestExplained,
    RequestsAsked,
)
from penstock.console.request_ids import request_id_of
from penstock.console.screens.page import PageRequest
from penstock.errors import NotFound

_DAYS: Final = "7d"


async def page_of(page: PageRequest, text: str) -> str:
    """Return the address of what a text names: a request, a trace, a caller's id, or a session.

    Callers use such ids as requests have for their own requests and sessions, too.
    """
    request = request_id_of(text)
    if request:
        try:
            explained = await page.read(EXPLAIN_REQUEST, RequestExplained(id=request))
        except NotFound:
            # No request of ours was ever called so.
            request = ""
        else:
            if explained.request is not None or explained.decisions:
                return f"/console/request?{urlencode({'id': request})}"
    found = await page.read(
        LIST_REQUESTS, RequestsAsked(since=_DAYS, caller_request=text, limit="1")
    )
    if found.requests.requests:
        return f"/console/request?{urlencode({'id': found.requests.requests[0].request})}"
    of_session = await page.read(LIST_REQUESTS, RequestsAsked(since=_DAYS, session=text, limit="1"))
    if of_session.requests.requests:
        row = of_session.requests.requests[0]
        query = {"session": row.session, "account": row.account, "period": _DAYS}
        return f"/console/sessions?{urlencode(query)}"
    if request:
        # The page of a request says what is known of one that did not run.
        return f"/console/request?{urlencode({'id': request})}"
    return f"/console/requests?{urlencode({'period': '24h', 'caller_request': text})}"
