"""How long a test may take, by its folder; and generated cases that are the same each time."""

from pathlib import Path

import hypothesis
import pytest

TESTS = Path(__file__).parent
SECONDS = {"unit": 10, "integration": 60, "simulation": 300, "engine": 600, "acceptance": 600}

# A failure is the same on every machine, and a slow machine is no failure.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in SECONDS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS[folder]))
