"""A small fleet for each test, of which nothing is left at its end."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.serving.small_fleet import Fleet


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = Fleet()
    yield made
    await made.close()
