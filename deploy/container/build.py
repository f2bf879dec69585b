#!/usr/bin/env python3
"""Builds the container image `penstock:VERSION`, by Docker, or by buildah where no Docker runs.

    python deploy/container/build.py                              `make image`
    python deploy/container/build.py --archive dist/image.tar.gz  also as a file for `docker load`

The package is the compiled wheel of this checkout unless --wheel names one. buildah needs no
registry: unless --base names an image, it builds on a Debian that mmdebstrap makes from the
machine's own package sources. The last line on standard output is the image's name.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.container.builders import Builder, BuildRefused, find_builder
from deploy.container.wheels import dependency_wheels
from deploy.native.build import default_cache

from penstock import DISTRIBUTION

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REPOSITORY = "penstock"
_WHEEL = re.compile(rf"{DISTRIBUTION.replace('-', '_')}-(?P<version>[^-]+)-.+\.whl")
_GZIP_LEVEL = 6


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the container image.")
    parser.add_argument("--base", default="", help="an image with Python to build on")
    parser.add_argument("--tag", default="", help="the version, unless given")
    parser.add_argument("--wheel", type=Path, help="the package; unless given it is compiled now")
    parser.add_argument("--archive", type=Path, help="also write the image to this .tar.gz")
    parser.add_argument("--storage", type=Path, help="a folder for buildah's images, not its own")
    parser.add_argument("--check", action="store_true", help="only say whether it can be built")
    options = parser.parse_args()
    try:
        builder = find_builder(options.storage)
        if options.check:
            return 0
        name = build(builder, options.wheel, options.base, options.tag)
        if options.archive is not None:
            write_archive(builder, name, options.archive)
    except BuildRefused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    print(name)
    return 0


def build(builder: Builder, wheel: Path | None = None, base: str = "", tag: str = "") -> str:
    """Build the image and return its name."""
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as made:
        context = Path(made)
        version = gather(context, wheel)
        name = f"{REPOSITORY}:{tag or version}"
        builder.build(context, name, base or builder.default_base(), _labels(version))
    return name


def gather(context: Path, wheel: Path | None) -> str:
    """Fill the folder that the Dockerfile reads; return the package's version."""
    requirements = ROOT / "requirements" / "runtime.txt"
    shutil.copy(HERE / "Dockerfile", context)
    shutil.copy(requirements, context / "runtime.txt")
    shutil.copytree(dependency_wheels(requirements, default_cache()), context / "wheels")
    package = context / "package"
    package.mkdir()
    if wheel is None:
        _compile_wheel(package)
    else:
        shutil.copy(wheel, package)
    (found,) = package.glob("*.whl")
    return version_of(found)


def version_of(wheel: Path) -> str:
    """Return the version in a wheel's name."""
    named = _WHEEL.fullmatch(wheel.name)
    if named is None:
        raise BuildRefused(f"{wheel.name} is no wheel of Penstock.")
    return named["version"]


def write_archive(builder: Builder, name: str, archive: Path) -> None:
    """Write the image as a file that `docker load` and `podman load` read."""
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as made:
        plain = Path(made) / "image.tar"
        builder.save(name, plain)
        with plain.open("rb") as source, gzip.open(archive, "wb", _GZIP_LEVEL) as target:
            shutil.copyfileobj(source, target, 2**20)


def _labels(version: str) -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "org.opencontainers.image.title": REPOSITORY,
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.version": version,
    }


def _compile_wheel(folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    switch = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
    environment = {**os.environ, **switch}  # noqa: TID251 - passed on to the build
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
