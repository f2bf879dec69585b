#!/usr/bin/env python3
"""The package with its hot modules compiled by mypyc: for PYTHONPATH, or for a wheel.

`python deploy/native/build.py` prints a folder with the package in it. What is compiled is in
modules.txt; the rest is copied. The folder's name has a digest of all that the result depends on:
where it exists it is only printed, and it exists only once it is whole.
"""

import argparse
import compileall
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
PACKAGE: Final = "penstock"
_SETUP: Final = HERE / "setup_native.py"
_FOLDERS_MAX: Final = 3
_MINUTES_MAX: Final = 20
_LOG_CHARACTERS: Final = 4000
_SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")


def read_modules(root: Path = ROOT) -> list[str]:
    """The paths in the package of the modules to compile."""
    text = (root / "deploy" / "native" / "modules.txt").read_text()
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def build(root: Path, cache: Path) -> Path:
    """The folder with the compiled package of a checkout, compiled now unless it is there."""
    source = root / "src" / PACKAGE
    modules = read_modules(root)
    folder = cache / f"native-{_digest(source, modules)}"
    with _locked(cache) as lock:
        if not folder.is_dir():
            _compile(source, modules, folder, config=root / "pyproject.toml", lock=lock)
        # The newest are kept by when they were last asked for.
        os.utime(folder)
        _remove_old(cache)
    return folder


def libraries(folder: Path) -> list[Path]:
    """All compiled files: one that has the code, and one for each module that leads there."""
    return sorted(folder.rglob(f"*{_SUFFIX}"))


def default_cache() -> Path:
    home = os.environ.get("PENSTOCK_CACHE")  # noqa: TID251 - the cache's place, as in the Makefile
    return Path(home) if home else Path.home() / ".cache" / "penstock"


def _digest(source: Path, modules: list[str]) -> str:
    """Of everything that the result depends on."""
    found = hashlib.sha256()
    for word in (version("mypy"), str(_SUFFIX), sys.version, *modules):
        found.update(word.encode() + b"\0")
    found.update(_SETUP.read_bytes())
    for path in _files(source):
        name = str(path.relative_to(source))
        found.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _files(source: Path) -> list[Path]:
    return sorted(
        path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )


@contextmanager
def _locked(cache: Path) -> Iterator[int]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "native.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"waiting for another build in {cache}\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _compile(source: Path, modules: list[str], folder: Path, *, config: Path, lock: int) -> None:
    """Compile in a folder beside it, which gets the name when nothing is left to be done."""
    work = folder.parent / "native.unfinished"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    sys.stderr.write(f"compiling {len(modules)} modules, 5 to 8 minutes\n")
    command = [sys.executable, str(_SETUP), str(config.resolve())]
    command += [f"{PACKAGE}/{module}" for module in modules]
    run = subprocess.run(  # noqa: S603 - our own script
        command,
        cwd=work,
        timeout=_MINUTES_MAX * 60,
        check=False,
        # If this is killed, the next build waits for the compiler that it left behind.
        pass_fds=[lock],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lacking = [one for one in modules if not (work / PACKAGE / f"{one[:-3]}{_SUFFIX}").exists()]
    if run.returncode != 0 or lacking:
        sys.stderr.write(run.stdout[-_LOG_CHARACTERS:])
        raise SystemExit(f"build: {len(lacking)} modules were not compiled")
    for left in (work / "build", work / ".mypy_cache"):
        shutil.rmtree(left, ignore_errors=True)
    # As pip does when it installs a wheel: or each process would compile what is not native itself.
    compileall.compile_dir(work / PACKAGE, quiet=1)
    work.rename(folder)


def _remove_old(cache: Path) -> None:
    folders = sorted(cache.glob("native-*"), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-_FOLDERS_MAX]:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the hot modules; prints the folder.")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout, unless this one")
    options = parser.parse_args()
    sys.stdout.write(f"{build(options.root, options.cache)}\n")


if __name__ == "__main__":
    main()
