#!/usr/bin/env python3
"""The package with its hot modules compiled by mypyc: for PYTHONPATH, or for a wheel.

`python deploy/native/build.py` prints a folder with the package in it. What is compiled is in
modules.txt; the rest is copied. The folder's name has two digests, of what the compiler reads and
of all that is copied: where it exists it is only printed, and it exists only once it is whole.
Where one exists that was compiled from the same, its libraries are taken.

NATIVE_OPTIMISE is the C compiler's level, 2 unless set. Level 1 compiles in half the time: tests
use it.
"""

import argparse
import ast
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
    level = _optimise_level()
    compiled = _digest_compiled(source, [level, *modules])
    folder = cache / f"native-{compiled}-{_digest(source, _files(source))}"
    with _locked(cache) as lock:
        if not folder.is_dir():
            work = _copied(source, cache)
            alike = next(cache.glob(f"native-{compiled}-*"), None)
            if alike is None:
                arguments = [str((root / "pyproject.toml").resolve()), level]
                _compile(work, modules, arguments, lock=lock)
            else:
                _take_libraries(alike, work)
            # As pip does when it installs a wheel: or each process would compile what is not
            # native itself.
            compileall.compile_dir(work / PACKAGE, quiet=1)
            work.rename(folder)
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


def _optimise_level() -> str:
    return os.environ.get("NATIVE_OPTIMISE", "2")  # noqa: TID251 - a setting of the build alone


def _digest_compiled(source: Path, words: list[str]) -> str:
    """Of everything that the compiled libraries depend on."""
    found = hashlib.sha256()
    for word in (version("mypy"), str(_SUFFIX), sys.version, *words):
        found.update(word.encode() + b"\0")
    found.update(_SETUP.read_bytes())
    modules = [word for word in words if word.endswith(".py")]
    found.update(_digest(source, _read_by_compiler(source, modules)).encode())
    return found.hexdigest()[:16]


def _digest(source: Path, paths: list[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        name = str(path.relative_to(source))
        found.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _read_by_compiler(source: Path, modules: list[str]) -> list[Path]:
    """These modules and whatever they import, wherever in them, and so on: half of the package.

    A page, a command or a test double that changes need not cost minutes.
    """
    found: set[Path] = set()
    left = [source / module for module in modules]
    while left:
        path = left.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in _imported(ast.parse(path.read_bytes())):
            first, *parts = name.split(".")
            for count in range(len(parts) + 1) if first == PACKAGE else ():
                here = source.joinpath(*parts[:count])
                left += (here / "__init__.py", here.with_suffix(".py"))
    return sorted(found)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules, and of what is in them: that may be a module, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


def _copied(source: Path, cache: Path) -> Path:
    """A folder with the package, which gets its name when nothing is left to be done."""
    work = cache / "native.unfinished"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    return work


def _take_libraries(folder: Path, work: Path) -> None:
    for path in libraries(folder):
        shutil.copy2(path, work / path.relative_to(folder))


def _compile(work: Path, modules: list[str], arguments: list[str], *, lock: int) -> None:
    sys.stderr.write(f"compiling {len(modules)} modules, 3 to 8 minutes\n")
    command = [sys.executable, str(_SETUP), *arguments]
    command += [f"{PACKAGE}/{module}" for module in modules]
    run = subprocess.run(  # noqa: S603 - our own script
        command,
        cwd=work,
        timeout=_MINUTES_MAX * 60,
        check=False,
        # Looking for warnings in generated code takes longer than compiling it.
        env={**os.environ, "CFLAGS": "-w"},  # noqa: TID251 - the compiler's own environment
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
