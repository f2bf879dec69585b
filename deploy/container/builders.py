"""The programs that build the image: Docker, and buildah, which needs no daemon and no registry."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

DEBIAN = "bookworm"
_DEBIAN_PYTHON = (3, 11)
_DEBIAN_SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
# In a container nobody reads them.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_PACKAGES = "python3,python3-venv,ca-certificates"


class BuildRefused(Exception):
    """Shown to the caller without a traceback."""


class Builder(Protocol):
    """A program that builds images from a folder with a Dockerfile."""

    def default_base(self) -> str:
        """Return the image to build on, made now if it has to be."""

    def build(self, context: Path, name: str, base: str, labels: Mapping[str, str]) -> None: ...

    def save(self, name: str, archive: Path) -> None:
        """Write the image as a tar file in Docker's format."""


def find_builder(storage: Path | None = None) -> Builder:
    """Return Docker if its daemon answers, else buildah. With a storage folder: buildah."""
    if storage is None and _answers(["docker", "info"]):
        return Docker()
    if shutil.which("buildah") is None:
        raise BuildRefused(
            "Building an image needs a running Docker, or buildah:"
            " apt-get install --no-install-recommends buildah mmdebstrap"
        )
    return Buildah(storage)


class Docker:
    """Builds by the Docker daemon, on Docker's own Python image."""

    def default_base(self) -> str:
        return f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim-{DEBIAN}"

    def build(self, context: Path, name: str, base: str, labels: Mapping[str, str]) -> None:
        command = ["docker", "build", "--tag", name, *build_options(base, labels), str(context)]
        # BuildKit is what knows `RUN --mount`.
        _run(["env", "DOCKER_BUILDKIT=1", *command])

    def save(self, name: str, archive: Path) -> None:
        _run(["docker", "save", "--output", str(archive), name])


class Buildah:
    """Builds without a daemon, in a chroot, from images that are on this machine.

    `storage` is a folder for them, unless they go where podman and buildah have theirs. Then what
    earlier builds left in it is removed, and the layer of dependencies kept for the next build.
    """

    def __init__(self, storage: Path | None = None) -> None:
        self._storage = storage
        self._command = ["buildah"]
        if storage is not None:
            run_root = Path(tempfile.gettempdir()) / "penstock-image-run"
            self._command += ["--root", str(storage), "--runroot", str(run_root)]

    @property
    def command(self) -> list[str]:
        """The program with the options that say where its images are."""
        return list(self._command)

    def default_base(self) -> str:
        name = f"penstock-base:{DEBIAN}"
        if not _answers([*self._command, "inspect", "--type", "image", name]):
            self._make_base(name)
        return name

    def build(self, context: Path, name: str, base: str, labels: Mapping[str, str]) -> None:
        options = ["--layers", "--isolation", "chroot", "--pull-never", "--format", "docker"]
        command = [*self._command, "build", *options, *build_options(base, labels)]
        if self._storage is not None:
            # A name keeps the layer from being removed below.
            kept = ["--target", "dependencies", "--tag", "penstock-dependencies"]
            _run([*command, *kept, str(context)])
        _run([*command, "--tag", name, str(context)])
        if self._storage is not None:
            _run([*self._command, "rmi", "--prune"])

    def save(self, name: str, archive: Path) -> None:
        _run([*self._command, "push", "--quiet", name, f"docker-archive:{archive}:{name}"])

    def _make_base(self, name: str) -> None:
        """Make a Debian with Python and nothing else, from the machine's own package sources."""
        sources = next((path for path in _DEBIAN_SOURCES if Path(path).exists()), None)
        if shutil.which("mmdebstrap") is None or sources is None:
            raise BuildRefused(
                "Without an image to build on (--base), this needs mmdebstrap and a Debian"
                f" {DEBIAN}: apt-get install mmdebstrap"
            )
        if sys.version_info[:2] != _DEBIAN_PYTHON:
            raise BuildRefused("Debian's Python is 3.11: build with that, or name an image: --base")
        with tempfile.TemporaryDirectory(prefix="penstock-base-") as made:
            tar = Path(made) / "base.tar"
            excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
            options = ["--quiet", "--variant=minbase", f"--include={_PACKAGES}", *excluded]
            _run(["mmdebstrap", *options, DEBIAN, str(tar), sources])
            container = _output([*self._command, "from", "scratch"])
            try:
                _run([*self._command, "add", "--quiet", container, str(tar), "/"])
                _run([*self._command, "commit", "--quiet", container, name])
            finally:
                _run([*self._command, "rm", container])


def build_options(base: str, labels: Mapping[str, str]) -> list[str]:
    """Return the options that both programs understand."""
    marks = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    return ["--build-arg", f"BASE={base}", *marks]


def _answers(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str]) -> None:
    # Standard output is for the image's name alone.
    subprocess.run(command, check=True, stdout=sys.stderr)


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
