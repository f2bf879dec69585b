"""The package with its hot modules compiled, as operators run it: what benchmarks measure."""

import subprocess
import sys
from pathlib import Path

_NATIVE = Path(__file__).parent.parent / "deploy" / "native"
MODULES = _NATIVE / "modules.txt"


def rooms_by_module() -> dict[str, str]:
    """The room of each compiled module by its last name; rooms too, which C adds where two agree.

    mypyc names the C function of `routing/pick.py` for `pick` unless another module is called that.
    """
    lines = [line.strip() for line in MODULES.read_text().splitlines()]
    paths = [Path(line) for line in lines if line and not line.startswith("#")]
    return {path.parts[0]: path.parts[0] for path in paths} | {
        path.stem: path.parts[0] for path in paths
    }


def compiled_folder() -> Path:
    """What a child gets as PYTHONPATH; compiled on first use, which takes minutes."""
    command = [sys.executable, str(_NATIVE / "build.py")]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return Path(said.strip())
