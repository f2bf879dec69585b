"""The container image, and what stands on it: the compose cell, and the units under a real systemd.

One file, so that one process builds the image.
"""

import json
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.deploy_compose import (
    GATEWAY_PORTS,
    ComposeCell,
    container_of,
    running_compose_cell,
)
from tests.acceptance.deploy_containers import Containers, running_containers
from tests.acceptance.deploy_image import Image, built_image, require_root
from tests.acceptance.deploy_units import UnitsCell, running_units

from penstock.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
# How many files a process may open is a matter of the machine that runs the tests.
_MACHINES_OWN = {"file descriptors"}


@pytest.fixture(scope="module", autouse=True)
def _at_full_length(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--full"):
        pytest.skip(
            "builds an image and starts containers and a systemd: `make nightly`, or --full"
        )
    require_root()


@pytest.fixture(scope="module")
def image() -> Image:
    return built_image()


@pytest.fixture(scope="module")
def containers(image: Image) -> Iterator[Containers]:
    with running_containers(image) as running:
        yield running


@pytest.fixture(scope="module")
def cell(containers: Containers) -> Iterator[ComposeCell]:
    with running_compose_cell(containers) as running:
        yield running


@pytest.fixture(scope="module")
def units(image: Image) -> Iterator[UnitsCell]:
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    server = EmbeddedPostgres(folder, fast_unsafe=True)
    server.start()
    try:
        with image.mounted() as files, running_units(files / "opt/penstock", folder) as running:
            yield running
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_image_has_the_compiled_package_and_neither_a_database_nor_pip(image: Image) -> None:
    with image.mounted() as files:
        (packages,) = (files / "opt/penstock/lib").glob("python3*/site-packages")
        names = {path.name.lower().partition("-")[0] for path in packages.iterdir()}
        assert list((packages / "penstock").rglob("*.so"))
        assert not [path for path in files.rglob("*pgserver*") if "proc" not in path.parts]
    assert {"penstock", "psycopg"} <= names
    assert not {"pip", "setuptools", "pytest", "pyarrow"} & names


def test_image_starts_as_a_user_who_owns_only_its_folder(containers: Containers) -> None:
    run = ("run", "--rm", "--network=none")
    assert containers.podman(*run, "penstock:test", "--version") == f"penstock {VERSION}"
    found = containers.podman(
        *run, "--entrypoint=sh", "penstock:test", "-c", "id -u; pwd; touch file /opt/penstock/file"
        " 2>/dev/null || ls",
    )  # fmt: skip
    assert found.split() == ["10001", "/var/lib/penstock", "file"]


def test_gateways_of_the_compose_cell_answer(cell: ComposeCell) -> None:
    for port in GATEWAY_PORTS:
        assert cell.chat(port)["model"] == "@cf/openai/gpt-oss-20b"
        assert json.loads(cell.ask(port, "/readyz?verbose"))["warnings"] == []


def test_a_file_of_one_gateway_is_read_from_the_bucket_by_the_other(
    cell: ComposeCell, tmp_path: Path
) -> None:
    first, second = GATEWAY_PORTS
    path = tmp_path / "input.jsonl"
    path.write_text('{"custom_id": "one"}\n' * 100)
    form = ("--form", "purpose=batch", "--form", f"file=@{path}")
    made = json.loads(cell.ask(first, "/v1/files", *form))
    assert cell.ask(second, f"/v1/files/{made['id']}/content") == path.read_text().strip()


def test_doctor_finds_the_compose_cell_well(cell: ComposeCell) -> None:
    checks = json.loads(cell.penstock("gateway-1", "doctor", "--json"))
    wrong = [check for check in checks if check["verdict"] != "ok"]
    found = [check for check in wrong if check["name"] not in _MACHINES_OWN]
    # It has no key of its own there: only containers of this cell reach it.
    assert [check["name"] for check in found] == ["engine http://engine:8000 key"]


def test_services_of_penstock_have_no_rights_and_write_to_their_volume_only(
    cell: ComposeCell,
) -> None:
    for service in ("gateway-1", "control", "keeper"):
        status = cell.execute(service, "cat", "/proc/1/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        assert int(fields["CapBnd"], 16) == int(fields["CapEff"], 16) == 0
        assert fields["NoNewPrivs"] == "1"
        assert set(fields["Uid"].split()) == {"10001"}
        script = "for place; do touch $place/file 2>/dev/null && echo $place; done; true"
        places = ("/opt", "/etc", "/usr/bin", "/var/lib/penstock")
        assert cell.execute(service, "sh", "-c", script, "sh", *places) == "/var/lib/penstock"


def test_services_of_penstock_end_by_themselves(cell: ComposeCell) -> None:
    """The last one to use the cell."""
    for service in ("gateway-2", "control", "keeper"):
        name = container_of(service)
        cell.containers.podman("stop", "--time", "60", name)
        code = cell.containers.podman("inspect", "--format", "{{.State.ExitCode}}", name)
        assert (service, code) == (service, "0"), cell.log(service)


def test_units_serve_a_request(units: UnitsCell) -> None:
    assert units.chat()["choices"][0]["message"]["content"]
    for service in ("gateway", "control", "keeper"):
        assert units.property_of(service, "User") == "penstock"
        # The system call filter holds: 2 is seccomp's filter mode.
        assert units.status_of(service)["Seccomp"] == "2"
        assert units.status_of(service)["NoNewPrivs"] == "1"


def test_engine_outlives_a_restart_of_its_keeper(units: UnitsCell) -> None:
    engine, keeper = units.engine_pids(), units.property_of("keeper", "MainPID")
    units.machine.run("systemctl", "restart", "penstock-keeper.service")
    assert units.property_of("keeper", "MainPID") != keeper
    units.wait_for_line("keeper", "replica_adopted")
    assert units.engine_pids() == engine
    assert units.chat()


def test_killed_gateway_is_started_again(units: UnitsCell) -> None:
    units.machine.run("systemctl", "kill", "--signal=SIGKILL", "penstock-gateway.service")
    units.wait_until_ready()
    assert units.chat()


def test_wrong_setting_is_shown_and_not_tried_again(units: UnitsCell) -> None:
    units.machine.run("systemctl", "stop", "penstock-control.service")
    with units.changed_settings("[control]\nnothing = 1\n"):
        units.machine.run("systemctl", "start", "penstock-control.service", check=False)
        units.wait_for_property("control", "ActiveState", "failed")
        assert units.property_of("control", "ExecMainStatus") == "2"
    units.machine.run("systemctl", "start", "penstock-control.service")


def test_stop_lets_a_stream_end(units: UnitsCell) -> None:
    """The last one to use the units."""
    with units.stream(tokens=40, interval=0.1) as stream:
        assert stream.stdout is not None
        assert stream.stdout.readline().startswith("data: ")
        units.machine.run("systemctl", "stop", "penstock.target")
        assert "data: [DONE]" in stream.stdout.read()
    for service in ("gateway", "control", "keeper"):
        units.wait_for_property(service, "ActiveState", "inactive")
        assert units.property_of(service, "Result") == "success", service
    assert units.engine_pids()
