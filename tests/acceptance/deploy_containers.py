"""Real containers for tests: podman with its state in a folder, in a network namespace of its own.

Nothing of the machine's own podman is used or changed. Packets of containers stay in the namespace,
so requests to them are sent by programs that run there.
"""

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.deploy_image import Image

PROCESSES_MAX = 4096
_COMMAND_SECONDS = 180

_CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""
_STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
[storage.options]
additionalimagestores = ["{images}"]
"""


class Containers:
    """Made by `running_containers`. `files_max` is how many files a process may open here."""

    def __init__(self, folder: Path, namespace_pid: int, files_max: int) -> None:
        self.folder = folder
        self.files_max = files_max
        settings = [f"CONTAINERS_CONF={folder}/containers.conf"]
        settings += [f"CONTAINERS_STORAGE_CONF={folder}/storage.conf"]
        self._enter = ["nsenter", f"--net=/proc/{namespace_pid}/ns/net", "env", *settings]

    def run(self, *command: str, check: bool = True) -> str:
        """Run a program in the containers' network; return what it printed."""
        done = subprocess.run(
            [*self._enter, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def podman(self, *words: str, check: bool = True) -> str:
        return self.run("podman", *words, check=check)

    def remove_all(self) -> None:
        # One that others need is removed after them.
        while containers := self.podman("ps", "--all", "--quiet", check=False).split():
            self.podman("rm", "--force", "--time", "0", *containers, check=False)


@contextmanager
def running_containers(image: Image) -> Iterator[Containers]:
    """Offer the images of `image`'s storage; end all containers when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-containers-"))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # Unless these are said, podman asks for more than this process may give.
    limits = {"files": files, "processes": PROCESSES_MAX}
    names = {"folder": folder, "images": image.storage}
    (folder / "containers.conf").write_text(_CONTAINERS_CONF.format(**names, **limits))
    (folder / "storage.conf").write_text(_STORAGE_CONF.format(**names))
    # The namespace lasts until this process ends, or closes the pipe.
    script = "ip link set lo up && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as namespace:
        assert namespace.stdin is not None
        assert namespace.stdout is not None
        assert namespace.stdout.readline() == b"ready\n"
        containers = Containers(folder, namespace.pid, files)
        try:
            yield containers
        finally:
            containers.remove_all()
            namespace.stdin.close()
    shutil.rmtree(folder)
