"""How the gateway itself is started for a benchmark: as an operator would, with everything on."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from candidates import (
    CANDIDATE_CORE,
    LOAD_CORE,
    Candidate,
    free_ports_in_a_row,
    start_pinned,
    wait_ready,
)
from compiled_package import compiled_folder
from penstock.admission import AdmissionSettings, LimitBook
from penstock.clock import new_id
from penstock.fleet.roster import RosterTable
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import AccountId, KeyId, Role
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store, StoreSettings
from penstock.store.embedded import EmbeddedPostgres
from penstock.store.migrate import migrate

_UNMETERED = Path(__file__).with_name("unmetered_gateway.py")
MODEL = "@benchmark/penstock/m"
ENTRY = f"""
id = "{MODEL}"
aliases = ["m"]
family = "openai"
context_tokens = 262144
capabilities = ["tools"]

[prices]
input_nanousd_per_mtok = 600_000_000
cached_input_nanousd_per_mtok = 100_000_000
output_nanousd_per_mtok = 3_000_000_000

[recipe]
command = ["upstream", "{{port}}", "1"]
"""
# The upstream says that it keeps all conversations cached, and this is believed. No keeper runs
# that would read it off the replicas.
KV_TOKENS = 256_000_000


def start_penstock(
    ports: list[int],
    *,
    is_metered: bool = True,
    is_compiled: bool = True,
    under: Sequence[str] = (),
    more_settings: Mapping[str, str] = {},
) -> Candidate:
    """One gateway worker on the candidates' core, with these upstream ports as its replicas.

    `under` is a command that runs it, such as a profiler; `more_settings` are further variables.
    """
    program = ["-m", "penstock", "gateway"] if is_metered else [str(_UNMETERED)]
    package = {"PYTHONPATH": str(compiled_folder())} if is_compiled else {}
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    # Where this runs as root, Postgres is another user, who has to come through.
    folder.chmod(0o711)
    (folder / "models").mkdir()
    (folder / "models" / "m.toml").write_text(ENTRY)
    postgres = EmbeddedPostgres(folder / "postgres")
    everywhere = os.sched_getaffinity(0)

    def clean_up() -> None:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)

    try:
        # Postgres is not the candidate: it runs beside the load. Processes inherit their core.
        os.sched_setaffinity(0, {LOAD_CORE})
        try:
            dsn = postgres.start()
        finally:
            os.sched_setaffinity(0, everywhere)
        key = asyncio.run(_prepare(dsn, ports))
        port = free_ports_in_a_row(2)
        settings = {
            "PENSTOCK_STORE_DSN": dsn,
            "PENSTOCK_STORE_OBJECTS_URL": f"file:{folder}/objects",
            "PENSTOCK_CATALOGUE_FOLDER": str(folder / "models"),
            "PENSTOCK_INGRESS_PORT": str(port),
            "PENSTOCK_INGRESS_METRICS_PORT": str(port + 1),
            "PENSTOCK_METERING_JOURNAL_FOLDER": str(folder / "journal"),
            "PENSTOCK_SIGNALS_FOLDER": str(folder / "signals"),
            "PENSTOCK_ROUTING_KV_TOKENS": str(KV_TOKENS),
        }
        environment = {**os.environ, **package, **settings, **more_settings}  # noqa: TID251 - a child's settings
        process = start_pinned([*under, sys.executable, *program], CANDIDATE_CORE, environment)
        name = "penstock" if is_compiled else "penstock, interpreted"
        name += "" if is_metered else ", null meter"
        candidate = Candidate(name=name, port=port, process=process, key=key, after_stop=clean_up)
        wait_ready(candidate)
    except BaseException:
        clean_up()
        raise
    return candidate


async def _prepare(dsn: str, ports: list[int]) -> str:
    """Schema, an account with a key, limits on both, and the roster; the key's secret."""
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        account = await AccountBook(store).create("benchmark")
        key, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "benchmark")
        await _limit(store, account.id, key.id)
        await enroll_upstreams(store, ports)
    finally:
        await store.close()
    return secret


async def _limit(store: Store, account: AccountId, key: KeyId) -> None:
    """A budget and two rates, hard ones: each request is held against them and none is refused."""
    book = LimitBook(store, AdmissionSettings())
    for scope, value, measure, period, amount in (
        (Scope.ACCOUNT, "", Measure.NANOUSD, Period.MONTH, 10**16),
        (Scope.ACCOUNT, "", Measure.TOKENS, Period.MINUTE, 10**12),
        (Scope.KEY, key, Measure.REQUESTS, Period.MINUTE, 10**9),
    ):
        await book.create(Limit(0, account, scope, value, measure, period, amount))


async def enroll_upstreams(store: Store, ports: list[int]) -> None:
    """List upstream servers as ready replicas of the benchmark's model."""
    roster = RosterTable(store)
    for port in ports:
        replica = Replica(
            id=ReplicaId(new_id()),
            model=ModelId(MODEL),
            url=f"http://127.0.0.1:{port}",
            state=ReplicaState.READY,
            served_name="m",
        )
        await roster.enroll(replica, keeper="benchmark")
