"""Screen 6: sessions by what stands out, and one session turn by turn."""

from penstock.console.charts import Bar
from penstock.console.incident_operations import LIST_SESSIONS, SessionsAsked
from penstock.console.screens.page import Context, PageRequest
from penstock.console.usage_operations import SHOW_SESSION, SessionAsked
from penstock.wire.resources.session_list import SessionOrder
from penstock.wire.resources.usage import Turn


async def read_sessions(page: PageRequest) -> Context:
    """Read a list of sessions, or one session's turns."""
    view = page.view
    session = view.get("session")
    if session:
        return await _one(page, session)
    asked = SessionsAsked(
        since=view.since,
        until=view.until,
        account=view.account,
        workflow=view.workflow,
        order=view.get("order", SessionOrder.COST),
    )
    found = await page.read(LIST_SESSIONS, asked)
    return {
        "session": "",
        "orders": [str(each) for each in SessionOrder],
        "order": asked.order,
        "sessions": found.sessions.sessions,
        "has_more": found.sessions.has_more,
        "names": found.account_names,
    }


async def _one(page: PageRequest, session: str) -> Context:
    view = page.view
    asked = SessionAsked(
        session=session, account=view.account, since=view.since, until=view.until, limit="200"
    )
    found = await page.read(SHOW_SESSION, asked)
    bars = [
        Bar(
            f"turn {turn.number}: {turn.prompt_tokens or 0:,} prompt tokens, of which"
            f" {turn.cached_tokens or 0:,} cached, and {turn.output_tokens or 0:,} of output",
            (
                float(turn.cached_tokens or 0),
                float(max(0, (turn.prompt_tokens or 0) - (turn.cached_tokens or 0))),
                float(turn.output_tokens or 0),
            ),
            link=view.link("/console/request", id=turn.request, session=None),
            mark=_mark(turn),
        )
        for turn in found.turns
    ]
    return {"session": session, "found": found, "bars": bars}


def _mark(turn: Turn) -> str:
    """Return what stands above a turn's bar, as the page's legend says."""
    return ("◆" if turn.session_moved else "") + ("✕" if turn.cache_break else "")
