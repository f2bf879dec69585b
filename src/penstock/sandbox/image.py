"""Makes the folder that containers see as /opt/python: an interpreter, its library and packages.

Containers run as users of their own, so the folder must be readable by all, and it must not lie
below a folder that is not. Modules are compiled here, because containers cannot write them.
"""

import compileall
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

# What models are used to having, with all that these need: numpy, pandas, matplotlib, pypdf.
PACKAGES: Final = (
    *("contourpy==1.3.3", "cycler==0.12.1", "fonttools==4.68.0", "kiwisolver==1.5.1"),
    *("matplotlib==3.11.2", "numpy==2.4.6", "packaging==26.3", "pandas==3.1.1", "pillow==13.0.0"),
    *("pyparsing==3.3.3", "pypdf==7.1.0", "python-dateutil==4.0.0", "tzdata==2026.6"),
)
_LEFT_OUT: Final = (
    *("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "tkinter"),
    *("turtledemo", "ensurepip", "lib2to3", "config-*", "pydoc_data"),
)


class ImageProblem(Exception):
    """An image cannot be made; the text says why."""


class MadeImage(msgspec.Struct, frozen=True):
    """What was made."""

    python: str
    bytes: int
    files: int
    packages: tuple[str, ...]


def make_image(folder: Path, packages: Sequence[str] = PACKAGES) -> MadeImage:
    """Make a new image from the Python that runs this; the packages come by pip."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = folder / "lib" / version
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ImageProblem(
            f"{folder} is there already; an image is made in a new folder."
        ) from None
    (folder / "bin").mkdir()
    shutil.copy(Path(sys.executable).resolve(), folder / "bin" / "python3")
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(Path(sysconfig.get_path("stdlib")), library, ignore=left_out, symlinks=True)
    shared = Path(str(sysconfig.get_config_var("LIBDIR")))
    for path in shared.glob(f"lib{version}*.so*"):
        shutil.copy(path, folder / "lib")
    packages_folder = library / "site-packages"
    packages_folder.mkdir()
    if packages:
        _install(packages, packages_folder)
        _list_fonts(folder)
    compileall.compile_dir(folder / "lib", quiet=2, workers=1)
    size = files = 0
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            state = path.stat()
            path.chmod(state.st_mode | (0o555 if path.is_dir() else 0o444))
            size, files = size + state.st_size, files + path.is_file()
    return MadeImage(f"Python {platform.python_version()}", size, files, tuple(packages))


def _install(packages: Sequence[str], folder: Path) -> None:
    """Install exactly these, as wheels: no program of a package runs here."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary", ":all:", "--target", str(folder)]
    done = subprocess.run([*pip, *options, *packages], check=False)  # noqa: S603 - pinned names
    if done.returncode:
        raise ImageProblem("pip did not install the packages; what it said stands above.")


def _list_fonts(folder: Path) -> None:
    """Write matplotlib's list of fonts, which the first plot of each container would make anew."""
    subprocess.run(  # noqa: S603 - the image's own Python
        [folder / "bin" / "python3", "-I", "-c", "import matplotlib.font_manager"],
        check=False,
        capture_output=True,
        env={
            "PATH": os.defpath,
            "LD_LIBRARY_PATH": str(folder / "lib"),
            "MPLCONFIGDIR": str(folder / "share" / "matplotlib"),
        },
    )
