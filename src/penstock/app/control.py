"""The loops that the leading `penstock control` of a cell runs."""

import asyncio
import logging

from penstock.admission import LostLeases
from penstock.app.container_rooms import container_upkeep
from penstock.app.job_rooms import desk_rooms, session_books, session_upkeep
from penstock.clock import Clock
from penstock.config import Config
from penstock.contracts.chain_checks import ChainChecks
from penstock.contracts.chain_watch import ChainWatch
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_retention import DecisionRetention
from penstock.errors import StoreUnavailable
from penstock.events import EventLoops
from penstock.events.decision_heads import DecisionHeads
from penstock.fleet.cell.loop import DeploymentLoop
from penstock.fleet.reaper import Reaper
from penstock.ingress.pages.subscription_pages import failure_numbers
from penstock.jobs.flex_upkeep import FlexUpkeep
from penstock.jobs.submission import JobDesk
from penstock.metering import Retention
from penstock.outbound import Sender
from penstock.queue.file_retention import FileRetention
from penstock.queue.files import Files
from penstock.sessions import LostTurns
from penstock.sessions.retention import SessionRetention
from penstock.store import HeldLock, Objects, Sealing, Store
from penstock.turns import BackgroundResponses
from penstock.turns.container_tending import ContainerTending
from penstock.turns.left_over_responses import LeftOverResponses

_CONTROL_LOCK = "control"

logger = logging.getLogger(__name__)


class ControlLoops:
    """Runs the cell's clean-up and delivery loops while this process holds the leader's lock."""

    def __init__(self, config: Config, store: Store, clock: Clock) -> None:
        self._settings = config.store
        self._store = store
        self._reaper = Reaper(store, clock, config.fleet)
        self._deployments = DeploymentLoop(store, clock, config.fleet)
        self._retention = Retention(store, clock, config.metering)
        self._lost_leases = LostLeases(store, config.admission)
        self._telling = EventLoops(store, clock, config.events, config.webhooks, failure_numbers)
        self._objects = Objects(config.store, Sealing(store, config.store, clock))
        rooms = desk_rooms(store, self._objects, config)
        books = session_books(store, rooms.values, config, clock)
        responses = BackgroundResponses(books, clock)
        desk = JobDesk(rooms, config.admission, clock, responses)
        self._lost_turns = LostTurns(store)
        self._left_over = LeftOverResponses(store, desk, books, responses)
        self._flex = FlexUpkeep(rooms, desk)
        self._files = FileRetention(Files(store, self._objects, clock))
        self._sessions = SessionRetention(*session_upkeep(store, rooms.values, config, clock))
        self._containers = ContainerTending(
            store, container_upkeep(store, self._objects, config, clock)
        )
        decisions = DecisionBook(store, clock)
        self._old_decisions = DecisionRetention(decisions, config.contracts, clock)
        self._chains = ChainWatch(decisions, ChainChecks(store), config.contracts, clock)
        self._heads = DecisionHeads(decisions, Sender(config.webhooks), config.contracts, clock)
        self.is_leading = False

    async def run(self) -> None:
        """Wait for the leadership, lead while it lasts, wait again; until cancelled."""
        await self._objects.open()
        while True:
            try:
                async with self._store.hold_lock(_CONTROL_LOCK) as lock:
                    await self._lead(lock)
            except StoreUnavailable:
                logger.warning("control cannot reach postgres", extra={"action": "control_waits"})
            await asyncio.sleep(self._settings.lock_poll_seconds)

    async def _lead(self, lock: HeldLock) -> None:
        self.is_leading = True
        logger.info("control leads", extra={"action": "control_leads"})
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._reaper.run()),
                    group.create_task(self._deployments.run()),
                    group.create_task(self._retention.run()),
                    group.create_task(self._lost_leases.run()),
                    group.create_task(self._telling.run()),
                    group.create_task(self._flex.run()),
                    group.create_task(self._files.run()),
                    group.create_task(self._sessions.run()),
                    group.create_task(self._left_over.run()),
                    group.create_task(self._lost_turns.run()),
                    group.create_task(self._containers.run()),
                    group.create_task(self._old_decisions.run()),
                    group.create_task(self._chains.run()),
                    group.create_task(self._heads.run()),
                ]
                is_held = True
                while is_held:
                    await asyncio.sleep(self._settings.lock_ping_seconds)
                    is_held = await lock.still_held()
                for loop in loops:
                    loop.cancel()
        finally:
            self.is_leading = False
            logger.info("control stopped leading", extra={"action": "control_stopped_leading"})
