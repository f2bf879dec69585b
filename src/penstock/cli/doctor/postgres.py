"""Checks that Postgres answers, is new enough and migrated, and has the same time."""

from penstock.cli.doctor.check import Check, fail, ok, warn
from penstock.clock import Clock
from penstock.store import Store, pending

_VERSION_MIN = 15
_SKEW_SECONDS_MAX = 1.0
_START = "Start it with `penstock up`, or set store.dsn to a Postgres that runs."


async def check_postgres(store: Store, dsn: str, clock: Clock) -> list[Check]:
    """Check Postgres; raises StoreUnavailable if it does not answer (see `unreachable`)."""
    missing = await pending(dsn)
    async with store.transaction() as tx:
        before = clock.now()
        row = await tx.fetch_one(
            "select current_setting('server_version_num')::int,"
            " extract(epoch from clock_timestamp())::float8"
        )
        after = clock.now()
    assert row is not None, "it selects no table"
    return [
        _version(int(row[0])),
        _migrations(missing),
        # Postgres read its clock between our two readings, so a time outside of them is skew.
        _clock(max(before - row[1], row[1] - after, 0.0)),
    ]


def unreachable(reason: str) -> Check:
    return fail("postgres", reason, _START)


def _version(number: int) -> Check:
    major = number // 10_000
    if major < _VERSION_MIN:
        return fail("postgres", f"version {major}", f"Use {_VERSION_MIN} or newer.")
    return ok("postgres", f"reachable, version {major}")


def _migrations(missing: list[str]) -> Check:
    if missing:
        return fail("migrations", f"missing: {', '.join(missing)}", "Run `penstock migrate`.")
    return ok("migrations", "all applied")


def _clock(skew_seconds: float) -> Check:
    if skew_seconds > _SKEW_SECONDS_MAX:
        return warn(
            "clock",
            f"{skew_seconds:.1f} s away from Postgres's",
            "Let NTP set both clocks: ids and reports carry their time.",
        )
    return ok("clock", f"within {max(skew_seconds, 0.001):.3f} s of Postgres's")
