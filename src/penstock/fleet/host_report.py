"""Reports a keeper's host to Postgres, where operators and placement see it."""

from typing import TYPE_CHECKING, Final

from penstock.clock import Clock
from penstock.fleet.gpus import HostGpus
from penstock.fleet.hosts import HostReports
from penstock.fleet.known import Known
from penstock.fleet.settings import FleetSettings
from penstock.records.host import HostReport

if TYPE_CHECKING:
    from penstock.records.model import ModelId

# In heartbeats: a row per second and host would be many writes for what rarely changes.
_EVERY_BEATS: Final = 5


class HostReporter:
    """Writes the host's row every few seconds, and at once when replicas begin or cease to wait."""

    def __init__(
        self,
        table: HostReports,
        known: Known,
        gpus: HostGpus,
        settings: FleetSettings,
        clock: Clock,
    ) -> None:
        self._table = table
        self._known = known
        self._gpus = gpus
        self._settings = settings
        self._clock = clock
        self._reported_at = float("-inf")
        self._waiting: dict[ModelId, str] = {}
        self._fetching: set[ModelId] = set()

    async def report(self, keeper: str, host: str) -> None:
        """Write the row if it is due. Raises StoreUnavailable; call again."""
        now, waiting, fetching = self._clock.monotonic(), self._known.waiting, self._known.fetching
        every = _EVERY_BEATS * self._settings.heartbeat_seconds
        # How far a fetch has come is no news.
        is_news = waiting != self._waiting or fetching.keys() != self._fetching
        if now - self._reported_at < every and not is_news:
            return
        driver = self._gpus.driver()
        report = HostReport(
            name=host,
            address=self._settings.replica_address,
            labels=self._settings.labels,
            gpus=self._known.gpus,
            waiting=waiting,
            fetching=fetching,
            versions={"driver": driver} if driver else {},
            pool=self._settings.pool,
            obeys=self._settings.obeys,
        )
        await self._table.report(keeper, report, self._known.fetching_assignments)
        self._reported_at, self._waiting, self._fetching = now, waiting, set(fetching)
