"""Make a CUDA build of torchvision importable beside the CPU build of torch.

Its compiled operators cannot load there, and `import torchvision` then fails where it registers
shapes for operators that do not exist. Only torchvision.transforms, which is plain Python, is
needed: declare the missing operators, so that their shapes can be registered. Running it twice
changes nothing.

    python patch_torchvision.py FOLDER      what `pip install --target FOLDER torchvision` left
"""

import re
import sys
from pathlib import Path

MARK = "# Declared here because the compiled operators did not load.\n"
REGISTRATION = re.compile(r'^@torch\.library\.register_fake\("torchvision::(\w+)"\)', re.MULTILINE)
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def declare(registration: re.Match[str]) -> str:
    operator = registration[1]
    return (
        f"{MARK}if not torchvision.extension._has_ops():\n"
        f'    torch.library.define("torchvision::{operator}", "{SIGNATURE}")\n\n\n'
        f"{registration[0]}"
    )


def main(folder: Path) -> None:
    path = folder / "torchvision" / "_meta_registrations.py"
    source = path.read_text()
    if MARK in source:
        sys.stdout.write(f"{path} is patched already\n")
        return
    patched, count = REGISTRATION.subn(declare, source)
    if count == 0:
        raise SystemExit(
            f"{path} registers no operator: this is not the torchvision that was tried"
        )
    path.write_text(patched)
    sys.stdout.write(f"declared {count} operators in {path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
