"""The programs of a Kubernetes control plane, unpacked into the cache and not installed.

No package index has an API server. The archive (one program under four names, as xz) is named by
PENSTOCK_KUBE_ARCHIVE, or lies in the cache as `kube/kube.xz`; etcd and kubectl come from Debian.
"""

import hashlib
import json
import lzma
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
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


def kubectl_program() -> Path:
    """The machine's own, or Debian 13's: Debian 12's is too old for components."""
    found = shutil.which("kubectl")
    if found and _has_kustomize(found):
        return Path(found)
    return debian("kubectl", suite="trixie") / "usr" / "bin" / "kubectl"


def _has_kustomize(program: str) -> bool:
    """Whether its kustomize is of version 4 or later; kubectl before 1.24 does not report it."""
    command = [program, "version", "--client", "--output=json"]
    asked = subprocess.run(command, capture_output=True, check=False)
    version = json.loads(asked.stdout or "{}").get("kustomizeVersion", "v0")
    return int(version.removeprefix("v").partition(".")[0]) >= 4


def debian(package: str, *, suite: str = "") -> Path:
    """The files of a Debian package, unpacked and not installed; `suite` names another release."""
    folder = cache_folder() / package
    if not folder.exists():
        work = _work_folder()
        options = _options_of(suite, work) if suite else []
        download = ["apt-get", *options, "download", "-qq", package]
        if subprocess.run(download, cwd=work, check=False).returncode:
            # A new machine has no package lists yet.
            subprocess.run(["apt-get", *options, "update", "-qq"], check=True)
            subprocess.run(download, cwd=work, check=True)
        [file] = work.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", file, work / "files"], check=True)
        _settle(work / "files", folder)
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _options_of(suite: str, work: Path) -> list[str]:
    """Options by which apt reads another release from the machine's sources into `work`."""
    parts, lists = work / "parts", work / "lists"
    (lists / "partial").mkdir(parents=True)
    parts.mkdir()
    # The first paragraph is the archive itself, without the security updates of another release.
    lines = _SOURCES.read_text().split("\n\n")[0].splitlines()
    changed = [f"Suites: {suite}" if line.startswith("Suites:") else line for line in lines]
    (parts / "debian.sources").write_text("\n".join(changed) + "\n")
    settings = (
        f"Dir::State::lists={lists}",
        "Dir::State::status=/dev/null",
        "Dir::Etc::sourcelist=/dev/null",
        f"Dir::Etc::sourceparts={parts}",
        "Acquire::Languages=none",
        "APT::Sandbox::User=root",
    )
    return [word for setting in settings for word in ("-o", setting)]


def _work_folder() -> Path:
    cache_folder().mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache_folder()))


def _settle(work: Path, folder: Path) -> None:
    """Of several that unpack at once, one wins and the others take its folder."""
    try:
        work.rename(folder)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
