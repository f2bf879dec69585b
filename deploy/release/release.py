#!/usr/bin/env python3
"""Makes the files of a release in dist/, and the texts of its version in the checkout.

    python deploy/release/release.py 0.2.0      `make release VERSION=0.2.0`

Sets the version, turns the changelog's unreleased section into the version's, and builds the plain
wheel, the compiled wheel of this platform, the source distribution, the container image with that
wheel, SHA256SUMS and the release's notes. It commits, tags and publishes nothing: its last lines
say how.
"""

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_IMAGE_BUILDER = "deploy/container/build.py"
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_VERSION_LINE = re.compile(r'^version = "(.+)"$', re.MULTILINE)
_UNRELEASED = "## [Unreleased]\n"


class ReleaseRefused(Exception):
    """Said to whoever runs it, without a traceback."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the files of a release.")
    parser.add_argument("version")
    parser.add_argument("--plain-only", action="store_true", help="leave out what is compiled")
    parser.add_argument("--no-image", action="store_true", help="leave out the container image")
    options = parser.parse_args()
    has_image = not (options.plain_only or options.no_image)
    try:
        made = release(ROOT, options.version, is_plain_only=options.plain_only, has_image=has_image)
    except ReleaseRefused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    print(advice(options.version, made))
    return 0


def release(
    root: Path, version: str, *, is_plain_only: bool = False, has_image: bool = False
) -> list[Path]:
    """Write the version's texts and files; return the files."""
    project, changelog = root / "pyproject.toml", root / "CHANGELOG.md"
    if not _VERSION.fullmatch(version):
        raise ReleaseRefused(f"{version} is no version: 0.2.0, or 0.2.0rc1.")
    if has_image:
        # Before anything is written.
        _check_image_builder(root)
    today = f"{datetime.now(UTC):%Y-%m-%d}"  # noqa: TID251 - the day of a release is the real one
    changed, notes = dated(changelog.read_text(), version, today)
    changelog.write_text(changed)
    project.write_text(with_version(project.read_text(), version))
    folder = root / "dist"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    _build(root, "sdist")
    _build(root, "wheel")
    if not is_plain_only:
        _build(root, "wheel", HATCH_BUILD_HOOK_ENABLE_CUSTOM="1", NATIVE_OPTIMISE="2")
    if has_image:
        _build_image(root, folder, version)
    packages = sorted(folder.iterdir())
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{_sha256(each)}  {each.name}\n" for each in packages))
    notes_file = folder / f"notes-{version}.md"
    notes_file.write_text(notes)
    return [*packages, sums, notes_file]


def with_version(project: str, version: str) -> str:
    """Return pyproject.toml's text with the new version."""
    found = _VERSION_LINE.search(project)
    if found is None:
        raise ReleaseRefused("pyproject.toml has no line `version`.")
    return project[: found.start(1)] + version + project[found.end(1) :]


def dated(changelog: str, version: str, day: str) -> tuple[str, str]:
    """Return the changelog with its unreleased section made the version's, and that section."""
    heading = f"## [{version}] - {day}\n"
    before, found, after = changelog.partition(_UNRELEASED)
    if f"## [{version}]" in changelog:
        raise ReleaseRefused(f"The changelog has a section for {version} already.")
    section, next_heading, older = after.partition("\n## [")
    if not found or not section.strip():
        raise ReleaseRefused("The changelog's unreleased section is empty: nothing to release.")
    rest = f"{heading}{section}{next_heading}{older}"
    return f"{before}{_UNRELEASED}\n{rest}", f"{section.strip()}\n"


def advice(version: str, made: list[Path]) -> str:
    """Return what is left to do, as commands."""
    files = "\n".join(f"  {path.relative_to(ROOT)}" for path in made)
    return f"""Made:
{files}

Look at them, then:
  git commit -am "Release {version}" && git tag v{version} && git push --follow-tags
  .venv/bin/uv publish dist/*.whl dist/*.tar.gz      # needs a token of the project's on the index

The image, if it is among them: `docker load --input FILE`, then tag and push it to your registry.
Whoever downloads the files checks them with: sha256sum -c SHA256SUMS"""


def _build(root: Path, target: str, **settings: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target]
    environment = {**os.environ, **settings}  # noqa: TID251 - passed on to the build
    subprocess.run(command, cwd=root, env=environment, check=True)


def _check_image_builder(root: Path) -> None:
    command = [sys.executable, _IMAGE_BUILDER, "--check"]
    checked = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        reason = checked.stderr.strip().removeprefix("error: ")
        raise ReleaseRefused(f"{reason} Or leave the image out: --no-image.")


def _build_image(root: Path, folder: Path, version: str) -> None:
    (wheel,) = (path for path in folder.glob("*.whl") if "py3-none-any" not in path.name)
    archive = folder / f"penstock-{version}-image-{platform.machine()}.tar.gz"
    command = [sys.executable, _IMAGE_BUILDER, "--wheel", str(wheel), "--archive", str(archive)]
    subprocess.run(command, cwd=root, check=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
