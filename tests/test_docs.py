"""What is not documented fails here: settings, commands, endpoints, metrics, error codes."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from penstock import errors
from penstock.config import Config
from penstock.ingress.openapi import document
from penstock.queue import TRANSITIONS
from penstock.records.job import JobState
from penstock.telemetry.keeper_metrics import KEEPER_METRICS
from penstock.telemetry.metrics import METRICS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
MARKDOWN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])


def all_errors(kind: type[errors.Error] = errors.Error) -> list[type[errors.Error]]:
    return [kind, *(found for child in kind.__subclasses__() for found in all_errors(child))]


@pytest.mark.parametrize("room", Config.__struct_fields__)
def test_every_setting_is_documented(room: str) -> None:
    page = (REFERENCE / "configuration.md").read_text()
    for name in get_type_hints(Config)[room].__struct_fields__:
        assert f"`{room}.{name}`" in page, f"{room}.{name}: run `make docs`"


def test_every_metric_is_documented() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    for name in METRICS | KEEPER_METRICS:
        assert f"`{name}`" in page, name


def test_every_error_code_is_documented() -> None:
    page = (REFERENCE / "errors.md").read_text()
    for kind in all_errors():
        assert f"`{kind.code}`" in page, kind.__name__


def test_every_endpoint_is_documented() -> None:
    page = (REFERENCE / "endpoints.md").read_text()
    for path in document()["paths"]:
        assert f"`{path}`" in page, path


def test_error_tree_is_drawn_whole() -> None:
    drawn = errors.__doc__ or ""
    for kind in all_errors():
        assert kind.__name__ in drawn, kind.__name__


def test_error_codes_are_unique() -> None:
    codes = [kind.code for kind in all_errors()]
    assert len(codes) == len(set(codes))


def test_generated_reference_is_up_to_date() -> None:
    from docs_generate import pages

    for name, text in pages().items():
        assert (REFERENCE / name).read_text() == text, f"{name} is old: run `make docs`"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


def test_every_dependency_has_its_decision() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    block = project.partition("dependencies = [")[2].partition("]")[0]
    names = re.findall(r'"([a-z0-9-]+)', block)
    pages = "".join(page.read_text() for page in (DOCS / "decisions").glob("*.md"))
    assert names
    for name in names:
        assert f"`{name}`" in pages, f"{name} has no page in docs/decisions"


def test_readme_and_architecture_stay_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_states_of_a_job_are_drawn_as_they_are() -> None:
    drawn = re.findall(r"^ +(\w+) --> (\w+)", (DOCS / "flex.md").read_text(), re.MULTILINE)
    allowed = [(one, other) for one, others in TRANSITIONS.items() for other in others]
    assert sorted(drawn) == sorted(allowed)
    ends = re.findall(r"^ +(\w+) --> \[\*\]", (DOCS / "flex.md").read_text(), re.MULTILINE)
    assert sorted(ends) == sorted(state for state in JobState if state.is_final)
