"""Every test and every row of hostile code that docs/isolation.md names is there."""

import re
from pathlib import Path

from tests.integration.sandbox.hostile_code import BOMBS, ESCAPES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "isolation.md").read_text()


def test_tests_that_it_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    files = (ROOT / "tests").rglob("test_*.py")
    written = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 30
    assert named - written == set()


def test_rows_that_it_names_exist() -> None:
    lists = re.findall(r"rows ((?:`[^`]+`(?:, )?)+)", PAGE)
    named = {name for each in lists for name in re.findall(r"`([^`]+)`", each)}
    assert len(named) > 20
    assert named - {*ESCAPES, *BOMBS} == set()
