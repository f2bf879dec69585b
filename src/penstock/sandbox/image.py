"""Makes the folder that containers see as /opt/python: an interpreter, its library and packages.

Containers run as users of their own, so the folder must be readable by all, and it must not lie
below a folder that is not. Modules are compiled here, because containers cannot write them.
"""

import compileall
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# What models are used to having.
PACKAGES: Final = ("numpy", "pandas", "matplotlib", "pypdf")
_LEFT_OUT: Final = (
    *("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "tkinter"),
    *("turtledemo", "ensurepip", "lib2to3", "config-*", "pydoc_data"),
)


def make_image(folder: Path, packages: Sequence[str] = PACKAGES) -> None:
    """Make a new image from the Python that runs this; the packages come by pip."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = folder / "lib" / version
    (folder / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), folder / "bin" / "python3")
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(Path(sysconfig.get_path("stdlib")), library, ignore=left_out, symlinks=True)
    shared = Path(str(sysconfig.get_config_var("LIBDIR")))
    for path in shared.glob(f"lib{version}*.so*"):
        shutil.copy(path, folder / "lib")
    packages_folder = library / "site-packages"
    packages_folder.mkdir()
    if packages:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages_folder)]
        subprocess.run([*pip, *packages], check=True)  # noqa: S603 - the operator's own words
    compileall.compile_dir(folder / "lib", quiet=2, workers=1)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
