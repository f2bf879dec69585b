"""Options, time limits by folder, and which tests may not be run a second time when they fail."""

import random
from fnmatch import fnmatch
from pathlib import Path

import hypothesis
import pytest

TESTS = Path(__file__).parent
SECONDS = {"unit": 30, "integration": 120, "simulation": 300, "engine": 600, "acceptance": 600}
# Tests of money, of the queue and of hostile clients: one failure in a hundred runs is a defect,
# not a slow machine.
NO_SECOND_TRY_FOLDER = "hostile"
NO_SECOND_TRY_FILES = (
    "test_hostile_*", "test_metering_*", "test_limits_*", "test_queue_*", "test_job_*",
    "test_batches_*", "test_hardening_*",
)  # fmt: skip
# Files that take a minute or more, the longest first. Tests are given to processes file by file:
# one of these at the end would leave the other processes idle.
LONG_FILES = (
    "test_hostile_openapi.py", "test_docs_blocks.py", "test_quickstart.py",
    "test_client_frameworks.py", "test_client_opencode.py", "test_batches_crashes.py",
    "test_deploy_image.py", "test_docs_site.py", "test_hardening_h4_cut_streams.py",
    "test_gateway_silent_replicas.py", "test_puller.py", "test_usage_million.py",
    "test_routing_scale.py", "test_hostile_requests.py", "test_bench_command.py",
    "test_demo_command.py", "test_cli_up.py", "test_alerts_in_faults.py",
)  # fmt: skip
_SEED = 20261110

# A failure is the same on every machine, and a slow machine is no failure.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run generated cases at full length, with a new seed"
    )
    parser.addoption("--seed", type=int, help="the seed of generated cases, to repeat a failure")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(TESTS)
        folder = path.parts[0]
        if folder in SECONDS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS[folder]))
        if folder == "integration" and has_no_second_try(path):
            item.add_marker(pytest.mark.no_second_try)
    rank = {name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def has_no_second_try(path: Path) -> bool:
    """Whether the first failure of a test in this file is final."""
    is_named_so = any(fnmatch(path.name, pattern) for pattern in NO_SECOND_TRY_FILES)
    return is_named_so or NO_SECOND_TRY_FOLDER in path.parts


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full length (`make nightly`) instead of CI's."""
    return bool(request.config.getoption("--full"))


@pytest.fixture
def seeded(request: pytest.FixtureRequest, full: bool) -> random.Random:
    """A source of randomness. A failing test shows its seed, which `--seed` takes."""
    given = request.config.getoption("--seed")
    seed = random.SystemRandom().getrandbits(32) if full else _SEED
    seed = seed if given is None else given
    print(f"seed {seed}: repeat with --seed {seed}")
    return random.Random(seed)
