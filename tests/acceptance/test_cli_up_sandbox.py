"""`penstock up --sandbox`: one command, and code runs."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.acceptance.cli_run import Up, until

from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import make_image

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: as root its parents are shut to the users of Postgres and of containers.
    made = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize(
    ("kind", "driver", "isolation"),
    [("dev", "process", "none"), ("containers", "bubblewrap", "namespaces")],
)
def test_a_container_is_there_and_ends_with_the_run(
    kind: str, driver: str, isolation: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "containers":
        problem = Bubblewrap(folder, ControlGroups()).host_problem()
        if problem:
            pytest.skip(problem)
        make_image(folder / "image", ())
        monkeypatch.setenv("PENSTOCK_SANDBOX_IMAGE", str(folder / "image"))
        # Users of no other test, and less memory than such tests may have here.
        monkeypatch.setenv("PENSTOCK_SANDBOX_UID_FIRST", "1910000000")
        monkeypatch.setenv("PENSTOCK_SANDBOX_MEMORY_TIERS_MB", "[128]")
    up = Up(folder / "state", "--imitate", "--sandbox", kind, "--json")
    try:
        check_run(up, driver, isolation)
    finally:
        up.close()


def check_run(up: Up, driver: str, isolation: str) -> None:
    ready = up.ready()
    pid = ready["pids"]["sandbox"]
    headers = {"authorization": f"Bearer {ready['key']}"}
    url = f"http://127.0.0.1:{up.port}/v1/containers"

    def made() -> httpx.Response | None:
        answer = httpx.post(url, headers=headers, json={"name": "box"})
        return answer if answer.status_code == 200 else None

    # A host that was asked before it listened is left out for ten seconds.
    container = until(made, 20.0).json()
    assert (container["driver"], container["isolation"]) == (driver, isolation)
    path = f"{url}/{container['id']}/files"
    put = httpx.post(path, headers=headers, files={"file": ("a.txt", b"abc")})
    assert put.json()["path"] == "/mnt/data/a.txt"
    variables = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"PENSTOCK_STORE_DSN" not in variables
    assert b"PENSTOCK_SANDBOX_PORT" in variables
    up.process.terminate()
    assert up.process.wait(60) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
