"""Compile the modules named as arguments with mypyc, in place, in the current folder.

Run by build.py in a folder of its own: setuptools reads a pyproject.toml in the current folder and
does not know ours. All modules go into one library, where a call from one to another is a C call.
"""

import sys

from mypyc.build import mypycify
from setuptools import setup  # type: ignore[import-untyped]  # 65.5 ships no types

_LIBRARY = "penstock_native"


def main(config: str, modules: list[str]) -> None:
    options = [f"--config-file={config}", "--no-incremental"]
    extensions = mypycify([*options, *modules], opt_level="2", debug_level="0", group_name=_LIBRARY)
    setup(name=_LIBRARY, packages=[], ext_modules=extensions, script_args=["build_ext", "-i"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
