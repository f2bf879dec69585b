"""The programs of a Kubernetes control plane, unpacked into the cache and not installed.

No package index has an API server. The archive (one program under four names, as xz) is named by
PENSTOCK_KUBE_ARCHIVE, or lies in the cache as `kube/kube.xz`; etcd comes from Debian.
"""

import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")


def cache_folder() -> Path:
    home = _given("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    return Path(home) / "kube"


def _given(variable: str) -> str:
    return os.environ.get(variable, "")  # noqa: TID251 - tests of a machine's own programs


def archive() -> Path | None:
    """The archive, or None where there is none."""
    given = _given("PENSTOCK_KUBE_ARCHIVE")
    path = Path(given) if given else cache_folder() / "kube.xz"
    return path if path.exists() else None


def kube_programs(packed: Path) -> Path:
    """The folder with the four programs."""
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"programs-{digest}"
    if not folder.exists():
        work = _work_folder()
        with lzma.open(packed) as source, (work / "kube").open("wb") as unpacked:
            shutil.copyfileobj(source, unpacked, 2**20)
        (work / "kube").chmod(0o755)
        for name in _NAMES:
            (work / name).symlink_to("kube")
        _settle(work, folder)
    return folder


def etcd_program() -> Path:
    found = shutil.which("etcd")
    return Path(found) if found else debian("etcd-server") / "usr" / "bin" / "etcd"


def debian(package: str) -> Path:
    """The files of a Debian package, unpacked and not installed."""
    folder = cache_folder() / package
    if not folder.exists():
        work = _work_folder()
        download = ("apt-get", "download", "-qq", package)
        if subprocess.run(download, cwd=work, check=False).returncode:
            # A new machine has no package lists yet.
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            subprocess.run(download, cwd=work, check=True)
        [found] = work.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", found, work / "files"], check=True)
        _settle(work / "files", folder)
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _work_folder() -> Path:
    cache_folder().mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache_folder()))


def _settle(work: Path, folder: Path) -> None:
    """Of several that unpack at once, one wins and the others take its folder."""
    try:
        work.rename(folder)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
