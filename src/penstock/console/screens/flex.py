"""Screen 7: work that can wait: what waits, what runs, and the controls."""

from penstock.console.flex_operations import SHOW_FLEX
from penstock.console.job_operations import LIST_JOBS, JobFilters
from penstock.console.operation import Nothing
from penstock.console.screens.page import Context, PageRequest


async def read_flex(page: PageRequest) -> Context:
    """Read the queues and the latest jobs."""
    flex = await page.read(SHOW_FLEX, Nothing())
    jobs = await page.read(LIST_JOBS, JobFilters(limit=20))
    return {
        "models": flex.models,
        "jobs": jobs.jobs,
        "names": jobs.notes.account_names,
        "now": page.rooms.clock.now(),
    }
