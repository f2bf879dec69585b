"""Single checks of the doctor's, as far as they need no network."""

import json
import resource
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Penstock

from penstock.cli.doctor import engines, postgres
from penstock.cli.doctor.check import Check, CheckVerdict
from penstock.cli.doctor.host import check_descriptors, check_disk
from penstock.cli.doctor.hosts import check_hosts
from penstock.cli.http_call import HttpCaller
from penstock.fleet.hosts import SeenHost
from penstock.ingress.settings import IngressSettings
from penstock.records.host import Gpu, HostReport
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.testing import ScriptedEngine


@pytest.mark.parametrize(
    ("number", "verdict"), [(140_010, "fail"), (150_000, "ok"), (180_001, "ok")]
)
def test_postgres_is_15_or_newer(number: int, verdict: str) -> None:
    assert postgres._version(number).verdict == verdict


def test_missing_migrations_fail_with_the_command_to_run() -> None:
    check = postgres._migrations(["0002_roster.sql"])
    assert check.verdict is CheckVerdict.FAIL
    assert "penstock migrate" in check.advice


@pytest.mark.parametrize(("skew", "verdict"), [(0.0, "ok"), (0.9, "ok"), (1.1, "warn")])
def test_clock_skew_over_a_second_warns(skew: float, verdict: str) -> None:
    assert postgres._clock(skew).verdict == verdict


@pytest.mark.parametrize(
    ("argv", "verdicts"),
    [
        ((), []),
        (("vllm", "--shutdown-timeout", "60", "--scheduling-policy", "priority"), ["ok"]),
        (("vllm", "--shutdown-timeout=60", "--scheduling-policy=priority"), ["ok"]),
        (("vllm", "--shutdown-timeout", "60", "--scheduling-policy", "fcfs"), ["warn"]),
        (("vllm", "--scheduling-policy", "priority"), ["warn"]),
    ],
)
def test_arguments_are_read_off_the_command_line(
    argv: tuple[str, ...], verdicts: list[str]
) -> None:
    engine = engines.FoundEngine(url="http://h:1", model="m", argv=argv)
    assert [check.verdict for check in engines._arguments(engine)] == verdicts


def test_each_host_is_told_with_its_gpus_and_with_what_waits_there() -> None:
    gpus = tuple(Gpu(index, f"GPU-{index}", "NVIDIA H200") for index in range(8))
    reason = "needs 8 GPUs; of 8 here 2 are held by replicas"
    full = HostReport("a", "10.0.0.1", gpus=gpus, waiting={ModelId("kimi"): reason})
    hosts = [
        SeenHost(full, 1.0),
        SeenHost(HostReport("b", "10.0.0.2"), 1.0),
        SeenHost(HostReport("c", "10.0.0.3", gpus=gpus[:1]), 95.0),
    ]
    replica = Replica(
        ReplicaId("r"), ModelId("m"), "http://10.0.0.1:1", ReplicaState.READY, "m", host="a"
    )
    told = [(c.verdict, c.name, c.finding) for c in check_hosts(hosts, [replica])]
    assert told == [
        (CheckVerdict.OK, "host a", "8 GPUs (NVIDIA H200), 1 replica"),
        (CheckVerdict.WARN, "host a", f"kimi waits: it {reason}"),
        (CheckVerdict.OK, "host b", "no GPU, no replica"),
        (CheckVerdict.WARN, "host c", "its keeper was heard 95 s ago"),
    ]


def test_a_fetch_of_weights_is_a_finding_only_when_it_fails() -> None:
    fetching = {
        ModelId("kimi"): "fetches its weights: 12.3 of 59.0 GB",
        ModelId("llama"): "cannot fetch its weights: the source has no files",
    }
    host = SeenHost(HostReport("a", "10.0.0.1", fetching=fetching), 1.0)
    found = [(check.verdict, check.finding) for check in check_hosts([host], [])][1:]
    assert found == [
        (CheckVerdict.OK, "kimi fetches its weights: 12.3 of 59.0 GB"),
        (CheckVerdict.WARN, "llama cannot fetch its weights: the source has no files"),
    ]


@pytest.mark.parametrize("key", ["", "secret"])
def test_an_engine_that_other_hosts_reach_must_want_a_key(key: str) -> None:
    # Not 127.0.0.1, which is what counts for this host's own.
    with ScriptedEngine(model="m", host="127.0.0.2", api_key=key or "") as engine:
        url = f"http://127.0.0.2:{engine.port}"
        caller = HttpCaller(api_keys={url: key})
        found = engines.FoundEngine(url=url, model="m", served_name="m")
        checks = {check.name: check for check in engines.check_engine(caller, found)}
        door = checks[f"engine {url} key"]
        assert door.verdict is (CheckVerdict.OK if key else CheckVerdict.WARN)
        assert ("{engine_key}" in door.advice) is not bool(key)
        own = engines.FoundEngine(url=f"http://localhost:{engine.port}", model="m")
        assert engines._check_key(caller, own) == []


def test_too_few_descriptors_for_the_connections_allowed_warn() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert check_descriptors(IngressSettings(connections_max=1)).verdict is CheckVerdict.OK
    if hard != resource.RLIM_INFINITY:
        many = check_descriptors(IngressSettings(connections_max=min(hard, 10**6)))
        assert many.verdict is CheckVerdict.WARN
        assert "ulimit" in many.advice


def test_disk_is_looked_at_where_the_folder_will_be(tmp_path: Path) -> None:
    check = check_disk(tmp_path / "not" / "yet")
    assert check.name == "disk"
    assert str(tmp_path) in check.finding


def test_doctor_without_a_postgres_fails_and_goes_on(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_INGRESS_METRICS_PORT", "0")
    shown = penstock("doctor", "--json")
    assert shown.exit_code == 1
    checks = [Check(**each) for each in json.loads(shown.stdout)]
    by_name = {check.name: check.verdict for check in checks}
    assert by_name["postgres"] == "fail"
    assert by_name["catalogue"] == "ok"
    assert by_name["engines"] == "warn"
    assert by_name["disk"] in {"ok", "warn"}
    table = penstock("doctor").stdout
    assert "penstock up" in table
    assert all(check.name in table for check in checks)


def test_doctor_names_the_entry_that_is_wrong(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text("id = 3")
    monkeypatch.setenv("PENSTOCK_CATALOGUE_FOLDER", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_STORE_DSN", "host=/nowhere connect_timeout=1")
    checks = {each["name"]: each for each in json.loads(penstock("doctor", "--json").stdout)}
    assert checks["catalogue"]["verdict"] == "fail"
    assert "a.toml" in checks["catalogue"]["finding"]
    assert checks["postgres"]["verdict"] == "fail"
