"""What is not documented fails here: settings, commands, endpoints, metrics, error codes.

And what leads nowhere: links, anchors, pages that the site's navigation leaves out.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest
from docs_api import anchor, kind_of
from docs_cli import commands
from docs_errors import WHAT_TO_DO, error_tree
from docs_generate import ASSETS, pages
from docs_pictures import pictures

from penstock import errors
from penstock.config import Config
from penstock.ingress.pages.openapi import document
from penstock.queue import TRANSITIONS
from penstock.records.job import JobState
from penstock.telemetry.keeper_metrics import KEEPER_METRICS
from penstock.telemetry.metrics import METRICS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PLACES = (DOCS, ROOT / "deploy", ROOT / "examples")
MARKDOWN = sorted([*ROOT.glob("*.md"), *(page for place in PLACES for page in place.rglob("*.md"))])
_LINK = re.compile(r"\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")
_FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What headings can be linked to by, as GitHub and the site spell it."""
    found = re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in found}


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
    for kind in error_tree():
        assert f"### `{kind.code}`\n" in page, kind.__name__


def test_every_error_code_says_what_to_do_and_none_is_gone() -> None:
    assert set(WHAT_TO_DO) == {kind.code for kind in error_tree()}


def test_every_endpoint_is_documented_with_its_fields() -> None:
    listed = (REFERENCE / "endpoints.md").read_text()
    for path, methods in document()["paths"].items():
        page = REFERENCE / "api" / kind_of(path).file
        assert f"`{path}`" in listed, path
        assert {anchor(method, path) for method in methods} <= anchors(page), path


def test_every_command_is_documented_with_its_options() -> None:
    page = (REFERENCE / "cli.md").read_text()
    for path, command in commands():
        section = page.partition(f"\n## `{path}`\n")[2].partition("\n## ")[0]
        assert section, path
        for parameter in command.params:
            is_shown = parameter.name != "help" and not parameter.hidden
            assert not is_shown or f"{parameter.help}" in section, parameter.name


def test_error_tree_is_drawn_whole() -> None:
    drawn = errors.__doc__ or ""
    for kind in error_tree():
        assert kind.__name__ in drawn, kind.__name__


def test_error_codes_are_unique() -> None:
    codes = [kind.code for kind in error_tree()]
    assert len(codes) == len(set(codes))


def test_generated_reference_is_up_to_date() -> None:
    for name, text in pages().items():
        assert (REFERENCE / name).read_text() == text, f"{name} is old: run `make docs`"


def test_pictures_show_the_recorded_figures() -> None:
    for name, text in pictures().items():
        assert (ASSETS / name).read_text() == text, f"{name} is old: run `make docs`"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in _LINK.finditer(_FENCED.sub("", page.read_text())):
        target = link["target"]
        if "://" in target or target.startswith("mailto:"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        if link["anchor"] and there.suffix == ".md":
            assert link["anchor"] in anchors(there), f"{target}#{link['anchor']}"


def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize("page", ["flex", "replicas"])
def test_picture_of_states_has_the_page_s_own_arrows(page: str) -> None:
    written = re.findall(r"^ +(\w+ --> \w+)", (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    picture = (DOCS / "assets" / f"{page}-states.svg").read_text()
    drawn = re.findall(r'data-edge="(\w+) (\w+)"', picture)
    assert sorted(f"{one} --> {other}" for one, other in drawn) == sorted(written)


def test_picture_of_rooms_has_every_layer_in_its_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = " ".join(contracts["contracts"][0]["layers"]).replace("|", " ").split()
    picture = (DOCS / "assets" / "rooms.svg").read_text()
    assert re.findall(r'<text class="p-text"[^>]*>(\w+)</text>', picture) == layers


_SOURCE_LINK = re.compile(r"\[`([\w.]+)`\]\(\.\./(src/penstock/[\w/]+\.py)\)")


def _defined_in(path: Path) -> set[str]:
    """Functions and classes of a file, and methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            methods = [each.name for each in node.body if isinstance(each, functions)]
            names |= {node.name, *(f"{node.name}.{method}" for method in methods)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return names


def test_each_step_of_a_request_links_to_what_the_code_defines() -> None:
    page = (DOCS / "how-a-request-travels.md").read_text()
    steps = page.split("\n## ")[1:]
    assert len(steps) >= 8
    for step in steps:
        links = _SOURCE_LINK.findall(step)
        assert links, step.splitlines()[0]
        missing = [(name, file) for name, file in links if name not in _defined_in(ROOT / file)]
        assert missing == []
