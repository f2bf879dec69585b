"""The wheels of what the package needs at run time, at pinned versions, kept between builds."""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

_PREFIX = "image-wheels-"


def dependency_wheels(requirements: Path, cache: Path) -> Path:
    """Return the folder with the wheels, downloaded now unless it is there.

    The folder appears only when it is whole. Those of earlier requirements are removed.
    """
    folder = cache / f"{_PREFIX}{digest_of(requirements)}"
    if not folder.is_dir():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _download(requirements, unfinished)
        for old in cache.glob(f"{_PREFIX}*"):
            if old != unfinished:
                shutil.rmtree(old)
        unfinished.rename(folder)
    return folder


def digest_of(requirements: Path) -> str:
    """Return a name for the requirements on this Python and platform."""
    words = f"{sys.version_info[:2]} {sysconfig.get_platform()}\n".encode()
    return hashlib.sha256(words + requirements.read_bytes()).hexdigest()[:16]


def _download(requirements: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--require-hashes", "--requirement", str(requirements)]
    subprocess.run([*command, "--dest", str(folder)], check=True)
