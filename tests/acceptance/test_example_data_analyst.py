"""The data analyst draws: a real sandbox runs matplotlib, and the picture arrives whole."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.acceptance.code_cell import CodeCell

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LOOK = "import pandas as pd\ntable = pd.read_csv('/mnt/data/reservoir.csv')\nprint(table.head(3))"
# As a good model writes it; the scripted one is told.
DRAW = """\
import matplotlib.pyplot as plt
months = pd.to_datetime(table.month).dt.strftime('%b')
peak = table.power_gwh.idxmax()
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout='constrained')
figure.suptitle('The reservoir fills from April to July; power peaks in June', fontsize=14)
top.bar(months, table.power_gwh, color=['#d55e00' if i == peak else '#9ecae1' for i in table.index])
top.set_ylabel('power, GWh')
top.annotate(f'{table.power_gwh[peak]} GWh', (peak, table.power_gwh[peak]), ha='center',
             xytext=(0, 4), textcoords='offset points', color='#d55e00')
top.set_ylim(0, table.power_gwh.max() * 1.15)
bottom.plot(months, table.level_m, color='#08519c', marker='o')
low = table.level_m.min() - 5
bottom.fill_between(months, table.level_m, low, color='#08519c', alpha=0.1)
bottom.set_ylim(low, table.level_m.max() + 5)
bottom.set_ylabel('level, m')
for axes in (top, bottom):
    axes.spines[['top', 'right']].set_visible(False)
print(f'{months[peak]}: {table.power_gwh[peak]} GWh')
"""


def _run(running: CodeCell, folder: Path, *command: str) -> str:
    cell = running.cell
    variables = {"URL": cell.url, "KEY": cell.key, "LANG": "C.UTF-8", "COLUMNS": "120"}
    done = subprocess.run(
        command,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_picture_is_drawn_and_saved(code_cell: CodeCell, tmp_path: Path) -> None:
    if code_cell.driver != "bubblewrap":
        pytest.skip("containers cannot be held here, and only their image has all packages")
    question = " THEN ".join(f"CALL python {json.dumps({'code': code})}" for code in (LOOK, DRAW))
    program, table = (str(EXAMPLES / name) for name in ("data_analyst.py", "reservoir.csv"))
    shown = _run(code_cell, tmp_path, sys.executable, program, table, question)
    assert "plt.subplots" in shown
    assert "2025-01" in shown
    assert "Jun: 58.3 GWh" in shown
    saved = re.findall(r"^saved (pictures/\S+[.]png) \(([\d,]+) bytes\)$", shown, re.MULTILINE)
    assert len(saved) == 1, shown
    # It stays with the test's files, to look at.
    path = tmp_path / saved[0][0]
    assert path.stat().st_size == int(saved[0][1].replace(",", "")) > 10_000
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width >= 600
        assert picture.height >= 400
        colours = picture.convert("RGB").getcolors(2**24)
    assert colours is not None
    assert len(colours) > 8
    print(path)


def test_command_of_the_readme_works_and_leaves_no_container(
    code_cell: CodeCell, tmp_path: Path
) -> None:
    before = code_cell.cell.get("/v1/containers")["data"]
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    blocks = re.findall(r"```bash\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    (block,) = (block for block in blocks if "data_analyst.py" in block)
    assert _run(code_cell, tmp_path, "bash", "-euc", block).strip()
    assert code_cell.cell.get("/v1/containers")["data"] == before
