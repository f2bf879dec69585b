"""Compile the modules named as arguments with mypyc, in place, in the current folder.

The first two arguments are mypy's configuration file and the C compiler's optimisation level.

Run by build.py in a folder of its own: setuptools reads a pyproject.toml in the current folder and
does not know ours. All modules go into one library, where a call from one to another is a C call.
"""

import sys

from mypyc.build import mypycify
from setuptools import setup  # type: ignore[import-untyped]  # 65.5 ships no types

_LIBRARY = "penstock_native"


def main(config: str, level: str, modules: list[str]) -> None:
    arguments = [f"--config-file={config}", "--no-incremental", *modules]
    extensions = mypycify(arguments, opt_level=level, debug_level="0", group_name=_LIBRARY)
    setup(name=_LIBRARY, packages=[], ext_modules=extensions, script_args=["build_ext", "-i"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
