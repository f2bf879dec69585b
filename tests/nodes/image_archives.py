"""Small container images without a registry: one program in one layer, as a docker archive."""

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write_image(archive: Path, name: str, program: Path, words: list[str]) -> None:
    """Write an image whose only file is a static program, started with these words."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, f"bin/{program.name}", filter=_owned_by_root)
    files = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/bin/{program.name}", *words]},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"],
        },
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    contents = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
        "layer.tar": files,
    }
    with tarfile.open(archive, "w") as tar:
        for path, data in contents.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755
    return entry
