"""A whole Penstock with real engines: `penstock up` in a folder, as the README says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.real_cell import Cell, running_up
from tests.integration.cells.trace_collector import TraceCollector

from penstock.catalogue.models import BUILTIN_FOLDER


@pytest.fixture(scope="session")
def collector() -> Iterator[TraceCollector]:
    """It gets the spans of each request of the suite, and of the engine of `smollm2`."""
    with TraceCollector() as collector:
        yield collector


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory, collector: TraceCollector) -> Iterator[Cell]:
    """One cell for the whole suite: text, vision and vectors."""
    folder = tmp_path_factory.mktemp("up")
    _write_settings(folder, collector)
    models = ("--model", "smollm2", "--model", "tiny-vision", "--model", "smollm2-embeddings")
    with running_up(folder, *models) as started:
        yield started


def _write_settings(folder: Path, collector: TraceCollector) -> None:
    catalogue = folder / "catalogue"
    catalogue.mkdir()
    recipe = (BUILTIN_FOLDER / "smollm2-135m-instruct.toml").read_text()
    for mark, more in (
        ('  "--enable-prefix-caching",\n', f'  "--otlp-traces-endpoint", "{collector.url}",\n'),
        ("[recipe.environment]\n", 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = "http/protobuf"\n'),
    ):
        assert recipe.count(mark) == 1
        recipe = recipe.replace(mark, mark + more)
    (catalogue / "smollm2.toml").write_text(recipe)
    (folder / "penstock.toml").write_text(f"""
[catalogue]
folder = "{catalogue}"
[telemetry]
traces_url = "{collector.url}"
traces_share = 1.0
""")
