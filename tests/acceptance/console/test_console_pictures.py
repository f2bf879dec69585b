"""The docs' pictures show the console and its commands as they are now, and are small."""

from pathlib import Path

import pytest
from PIL import Image
from tests.acceptance.console.console_pictures import (
    ALL_BYTES_MAX,
    FOLDER,
    HOW,
    PICTURES,
    ROOT,
    digest_of,
    draw,
    read_record,
    sources_of,
)

_PAGES = ("first-week-on-call.md", "console.md")
# What shows that the pictures can still be drawn, of each kind one.
_IN_CI = ("console-slow", "terminal-spend")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_of_what_is_there_now(name: str) -> None:
    known = read_record().get(name)
    assert known is not None, f"{name}.png is not drawn yet: {HOW} {name}"
    assert known.sources == sources_of(name), f"what {name}.png shows has changed: {HOW} {name}"
    file = FOLDER / f"{name}.png"
    assert known.picture == digest_of(file), f"{name}.png is another picture: {HOW} {name}"


def test_pictures_are_small_and_all_of_them_are_shown() -> None:
    files = {
        file.stem: file for kind in ("console", "terminal") for file in FOLDER.glob(f"{kind}-*.png")
    }
    assert set(files) == set(PICTURES) == set(read_record())
    assert sum(file.stat().st_size for file in files.values()) <= ALL_BYTES_MAX
    shown = "".join((ROOT / "docs" / page).read_text() for page in _PAGES)
    assert [name for name in PICTURES if f"](assets/{name}.png)" not in shown] == []


@pytest.mark.timeout(180)
def test_pictures_can_be_drawn(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    names = tuple(PICTURES) if request.config.getoption("--full") else _IN_CI
    draw(names, tmp_path)
    for name in names:
        with (
            Image.open(tmp_path / f"{name}.png") as now,
            Image.open(FOLDER / f"{name}.png") as kept,
        ):
            assert now.size == kept.size, f"{HOW} {name}"
