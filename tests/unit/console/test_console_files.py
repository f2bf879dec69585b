"""What the console needs at run time is in the wheel, and nothing of a build."""

import subprocess
import sys
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_CONSOLE = _ROOT / "src" / "penstock" / "console"
_BUILDING = (".map", ".ts", ".jsx", ".tsx", "package.json", "package-lock.json", ".lock")


def test_templates_and_files_are_in_the_wheel(tmp_path: Path) -> None:
    """The wheel is built without its compiled modules, which takes seconds."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    here = {
        str(path.relative_to(_ROOT / "src"))
        for folder in ("templates", "static")
        for path in (_CONSOLE / folder).rglob("*")
        if path.is_file()
    }
    assert len(here) > 15
    assert here <= names
    assert not [name for name in names if name.endswith(_BUILDING) or "node_modules" in name]
