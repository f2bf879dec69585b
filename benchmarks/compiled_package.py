"""The package with its hot modules compiled, as operators run it: what benchmarks measure."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from deploy.native.build import ROOT, build, default_cache, read_modules


def rooms_by_module() -> dict[str, str]:
    """The room of each compiled module by its last name; rooms too, which C adds where two agree.

    mypyc names the C function of `routing/pick.py` for `pick` unless another module is called that.
    """
    paths = [Path(module) for module in read_modules()]
    return {path.parts[0]: path.parts[0] for path in paths} | {
        path.stem: path.parts[0] for path in paths
    }


def cache_folder() -> Path:
    """Where what is not part of the checkout is kept."""
    return default_cache()


def compiled_folder() -> Path:
    """What a child gets as PYTHONPATH; compiled on first use, which takes minutes."""
    return build(ROOT, default_cache())
