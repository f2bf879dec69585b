"""The files of a release: their names, the changelog's section, a README without dead links."""

import re
import tomllib
from pathlib import Path

import pytest
from deploy.release.hatch_metadata import portable, urls
from deploy.release.release import ReleaseRefused, dated, release, with_version

from penstock import DISTRIBUTION

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = """# Changelog

## [Unreleased]

### Added

- One thing.

## [0.1.0] - 2026-01-01

- The first.
"""


def test_the_distributions_name_is_the_constant() -> None:
    assert PROJECT["name"] == DISTRIBUTION


def test_only_the_extra_up_brings_a_database() -> None:
    extras = PROJECT["optional-dependencies"]
    assert not [each for each in PROJECT["dependencies"] if "pgserver" in each]
    assert [name for name in extras if name != "dev" and "pgserver" in str(extras[name])] == ["up"]
    assert "pgserver" not in (ROOT / "requirements" / "runtime.txt").read_text()


def test_no_text_installs_a_name_that_is_not_ours() -> None:
    """Neither the stranger's `penstock` nor ours, which is not published yet."""
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    wrong = re.compile(r"(pip install|uvx|pipx \w+) '?\"?penstock")
    assert not [str(path) for path in texts if wrong.search(path.read_text())]


def test_readme_has_no_relative_link_or_picture_outside_of_the_repository() -> None:
    readme = (ROOT / "README.md").read_text()
    without = portable(readme, "", "0.2.0")
    assert not re.search(r"\]\((?!https?://|#)", without)
    assert "<!--" not in without
    linked = portable(readme, "https://git.example/penstock", "0.2.0")
    assert "(https://git.example/penstock/blob/v0.2.0/docs/quickstart.md)" in linked
    assert not re.search(r"\]\((?!https?://|#)", linked)


def test_addresses_are_those_of_who_publishes() -> None:
    assert urls("", "0.2.0") == {}
    found = urls("https://git.example/penstock", "0.2.0")
    assert found["Source"] == "https://git.example/penstock"
    assert found["Changelog"].endswith("/blob/v0.2.0/CHANGELOG.md")


def test_unreleased_section_becomes_the_versions() -> None:
    changed, notes = dated(CHANGELOG, "0.2.0", "2026-02-03")
    assert notes == "### Added\n\n- One thing.\n"
    assert changed == CHANGELOG.replace(
        "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n"
    )


@pytest.mark.parametrize("text", [CHANGELOG.replace("- One thing.", "").replace("### Added", "")])
def test_release_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ReleaseRefused, match="empty"):
        dated(text, "0.2.0", "2026-02-03")


def test_version_that_was_released_is_refused() -> None:
    with pytest.raises(ReleaseRefused, match=r"0\.1\.0 already"):
        dated(CHANGELOG, "0.1.0", "2026-02-03")


def test_version_is_set_once() -> None:
    changed = with_version((ROOT / "pyproject.toml").read_text(), "9.8.7")
    assert tomllib.loads(changed)["project"]["version"] == "9.8.7"


def test_release_without_a_builder_of_images_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ReleaseRefused, match=r"buildah.*--no-image"):
        release(tmp_path, "0.2.0", has_image=True)
    assert (tmp_path / "CHANGELOG.md").read_text() == CHANGELOG
