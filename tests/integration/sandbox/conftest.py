"""An image without packages, and containers made of it. Without bubblewrap these tests skip."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from penstock.sandbox.box import Box
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import BoxLimits, ControlGroups
from penstock.sandbox.driver import BoxSpec, StartedBox
from penstock.sandbox.image import make_image

LIMITS = BoxLimits(memory_bytes=128 * 2**20, processes_max=40, cpus=1.0)
DATA_BYTES = 16 * 2**20
_UID_FIRST = 261_000

StartBox = Callable[[], Awaitable[Box]]


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    # Not tmp_path: as root that is shut to the containers' users.
    folder = Path(tempfile.mkdtemp(prefix="penstock-image-"))
    folder.chmod(0o755)
    make_image(folder / "python", ())
    yield folder / "python"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def at_full_length(pytestconfig: pytest.Config) -> None:
    # Bombs take a core for half a minute, which tests of times beside them would notice.
    if not pytestconfig.getoption("--full"):
        pytest.skip("starts containers with hostile code: `make nightly`, or --full")


@pytest.fixture(scope="module")
def driver(image: Path) -> Bubblewrap:
    made = Bubblewrap(image, ControlGroups())
    if problem := made.problem():
        pytest.skip(f"no containers here: {problem}")
    return made


@pytest.fixture
async def start_box(driver: Bubblewrap, worker_number: int) -> AsyncIterator[StartBox]:
    """Start containers, each with a user of its own; they end with the test."""
    started: list[StartedBox] = []
    numbers = itertools.count(worker_number * 100)

    async def start() -> Box:
        number = next(numbers)
        spec = BoxSpec(f"test-{number}", _UID_FIRST + number, LIMITS, DATA_BYTES)
        started.append(await driver.start(spec))
        return started[-1].box

    yield start
    assert all(await asyncio.gather(*(each.end() for each in started)))


@pytest.fixture(scope="session")
def worker_number(request: pytest.FixtureRequest) -> int:
    """Which of several test processes this is: names and users of containers are the machine's."""
    name = getattr(request.config, "workerinput", {}).get("workerid", "gw0")
    return int(name.removeprefix("gw"))
