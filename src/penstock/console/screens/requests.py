"""Requests by what stands out: slow, dear, failed, or the latest."""

from penstock.console.incident_operations import LIST_REQUESTS, RequestsAsked
from penstock.console.screens.page import Context, PageRequest
from penstock.wire.resources.request_list import RequestOrder

_ORDERS = (RequestOrder.SLOW, RequestOrder.DEAR, RequestOrder.LAST)


async def read_requests(page: PageRequest) -> Context:
    """Read a list of requests."""
    view = page.view
    asked = RequestsAsked(
        since=view.since,
        until=view.until,
        account=view.account,
        workflow=view.workflow,
        model=view.get("model") or None,
        session=view.get("session") or None,
        replica=view.get("replica") or None,
        caller_request=view.get("caller_request") or None,
        order=view.get("order", RequestOrder.SLOW),
        outcome=view.get("outcome") or None,
    )
    found = await page.read(LIST_REQUESTS, asked)
    rows = found.requests.requests
    # The worst comes first; it is marked if it stands out, or if a replica was suspected.
    is_ranked = bool(rows) and asked.order != RequestOrder.LAST
    is_marked = is_ranked and bool(rows[0].why or asked.replica)
    return {
        "orders": [str(each) for each in _ORDERS],
        "order": asked.order,
        "outcome": asked.outcome or "",
        "rows": rows,
        "lead": rows[0] if is_marked else None,
        "has_more": found.requests.has_more,
        "names": found.account_names,
    }
