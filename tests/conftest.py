"""How long a test may take, by the folder it is in: beyond it, it hangs."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SECONDS = {"unit": 10, "integration": 60, "engine": 600, "acceptance": 600}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in SECONDS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS[folder]))
