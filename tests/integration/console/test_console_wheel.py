"""The console of an installed wheel works without node and without a network."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT

# A wheel is built, and a whole cell starts.
pytestmark = pytest.mark.timeout(180)

_ROOT = Path(__file__).parents[3]
_SCRIPT = Path(__file__).with_name("installed_console.py")
# A network of its own, in which the loopback alone is up.
_OFFLINE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: as root its parents are shut to the user that Postgres runs as."""
    with tempfile.TemporaryDirectory(prefix="penstock-wheel-") as made:
        place = Path(made)
        place.chmod(0o711)
        yield place


def _installed(folder: Path) -> Path:
    """Install the wheel, with what it depends on taken from this environment."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = str(place / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--python"]
    subprocess.run([*uv, python, str(wheel)], check=True, capture_output=True)
    [packages] = place.glob("lib/python*/site-packages")
    # Names a folder, whose own files of this kind are not read: the checkout is not found by it.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    found = subprocess.run(
        # Isolated: tests on the compiled package name that in PYTHONPATH.
        [python, "-I", "-c", "import penstock; print(penstock.__path__[0])"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert found.stdout.strip() == str(packages / "penstock")
    return place


def _can_be_offline() -> bool:
    if os.geteuid() or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*_OFFLINE, "true"], check=False, capture_output=True).returncode == 0


def test_the_console_needs_neither_node_nor_a_network(folder: Path, full: bool) -> None:
    if not full:
        pytest.skip(
            "installs a wheel, as `make verify-release` does too: `make nightly`, or --full"
        )
    place, is_offline = _installed(folder), _can_be_offline()
    home = folder / "home"
    home.mkdir(mode=0o711)
    before = _OFFLINE if is_offline else ()
    done = subprocess.run(
        [*before, str(place / "bin" / "python"), str(_SCRIPT), str(place), str(home)],
        env=CHILD_ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["files"] >= 4
    if not is_offline:
        pytest.skip("it works without node; to be without a network takes root and `unshare`")
    assert found["has_network"] is False
