"""Runs the three acts: the same sessions, sent in three ways, each with texts of its own.

Penstock's router finds a cached prompt by its prefix even if no session is named. So the act
without affinity leaves the router out: round robin over the engines' addresses.
"""

import asyncio
from enum import StrEnum
from typing import Final

import msgspec

from penstock.catalogue import load_catalogue
from penstock.catalogue.settings import CatalogueSettings
from penstock.cli.bench.client import Access
from penstock.cli.bench.driver import Drive, Driver
from penstock.cli.bench.figures import Report, report
from penstock.cli.demo.backlog import BacklogNow, DemoBacklog
from penstock.cli.demo.cell import DemoCell
from penstock.cli.demo.plan import DemoPlan
from penstock.clock import SystemClock
from penstock.metering.prices import PriceBook
from penstock.records.model import ModelId
from penstock.records.price import Price, Tier

_CONCURRENCY: Final = 100


class Act(StrEnum):
    """The acts, in the order in which they run."""

    ROUND_ROBIN = "round_robin"
    AFFINITY = "affinity"
    FLEX = "flex_behind"


class ActRow(msgspec.Struct, frozen=True):
    """One act's figures. `jobs` is the progress of the backlog meanwhile."""

    act: Act
    report: Report
    # Prompt and output tokens of answers and jobs, for each second of each engine.
    tokens_per_engine_second: float | None
    # Prompt tokens that went to each replica.
    replica_tokens: tuple[int, ...] = ()
    jobs: BacklogNow | None = None


class Stage:
    """Runs acts on one cell. `driver` is that of the present act."""

    def __init__(self, plan: DemoPlan, cell: DemoCell) -> None:
        self._plan = plan
        self._cell = cell
        self._clock = SystemClock()
        self.backlog = DemoBacklog(cell, plan.jobs)
        self.driver: Driver | None = None
        self.requests = plan.agents.load().requests

    async def play(self, act: Act) -> ActRow:
        """Run an act to its end, and return its figures."""
        if act is Act.FLEX:
            await self.backlog.submit()
        agents = msgspec.structs.replace(self._plan.agents, seed=1 + list(Act).index(act))
        load = agents.load()
        is_direct = act is Act.ROUND_ROBIN
        urls = self._cell.engines if is_direct else (self._cell.base_url,)
        drive = Drive(
            model=self._cell.model,
            access=Access() if is_direct else Access(key=self._cell.key),
            has_affinity=not is_direct,
            ignores_eos=True,
            concurrency=_CONCURRENCY,
            seconds_max=self._plan.act_seconds_max,
        )
        self.driver = driver = Driver([f"{url}/v1" for url in urls], drive, self._clock)
        await driver.run(load, asyncio.Event())
        if act is Act.FLEX:
            await self.backlog.look()
        figures = report(
            driver.seen,
            driver.lag,
            load=load.description,
            model=drive.model,
            price=self._price() if is_direct else None,
        )
        return row_of(act, figures, self.backlog.now, len(self._cell.engines))

    def _price(self) -> Price:
        """Return the price that the gateway would charge: an engine itself reports no cost."""
        catalogue = load_catalogue(CatalogueSettings())
        book = PriceBook(catalogue.models)
        return book.price(ModelId(self._plan.model), Tier.NOW, self._clock.now())


def row_of(act: Act, figures: Report, backlog: BacklogNow, engines: int) -> ActRow:
    """Return an act's row, from its measurements."""
    tokens = None
    if figures.prompt_tokens is not None and figures.output_tokens is not None:
        tokens = figures.prompt_tokens + figures.output_tokens + backlog.tokens
    seconds = figures.seconds * engines
    return ActRow(
        act=act,
        report=figures,
        tokens_per_engine_second=tokens / seconds if tokens is not None and seconds else None,
        jobs=backlog if backlog.total else None,
    )
