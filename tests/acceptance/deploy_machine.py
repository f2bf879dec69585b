"""A real systemd in namespaces of its own, with this host's programs and the image's package.

Its root is this host's, and what is written there is written to memory. It has a network of its own
with a loopback, and everything in it ends with it.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# deploy/README.md says the same to operators.
AS_SERVICE = (
    "systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--uid=penstock",
    "--property=EnvironmentFile=/etc/penstock/environment",
)  # fmt: skip
_START_SECONDS = 60.0
_CGROUPS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")

# $1 is an empty folder for the root, $2 the folder with files to put into it, $3 the package's
# folder and $4 that of Postgres' socket.
_BOOT = """
set -e
root=$1/root
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs $1
mkdir $1/upper $1/work $root
mount -t overlay -o lowerdir=/,upperdir=$1/upper,workdir=$1/work overlay $root
mount -t proc proc $root/proc
mount -t sysfs -o ro sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
for place in run dev tmp opt etc/systemd/system; do
  mount -t tmpfs -o mode=755 tmpfs $root/$place
done
chmod 1777 $root/tmp
mkdir -p $root/dev/pts $root/dev/shm $root/opt/penstock $root/srv/postgres
for device in null zero full random urandom tty; do
  touch $root/dev/$device
  mount --bind /dev/$device $root/dev/$device
done
ln -s /proc/self/fd $root/dev/fd
ln -s pts/ptmx $root/dev/ptmx
mount -t devpts -o newinstance,ptmxmode=0666 devpts $root/dev/pts
mount -t tmpfs -o mode=1777 tmpfs $root/dev/shm
mount --bind $3 $root/opt/penstock
mount --bind $4 $root/srv/postgres
: > $root/etc/fstab
cp -r $2/. $root/
ip link set lo up
hostname units
cd $root
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=basic.target
"""


class Machine:
    """Made by `running_machine`."""

    def __init__(self, pid: int) -> None:
        self._enter = ["nsenter", "--all", f"--target={pid}"]

    def popen(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._enter, *command], stdout=subprocess.PIPE, text=True)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command as root in the machine; return what it printed."""
        done = subprocess.run(
            [*self._enter, *command], capture_output=True, text=True, check=False, timeout=120
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def penstock(self, *words: str) -> str:
        """Run a command of Penstock with the services' user, settings and secrets."""
        return self.run(*AS_SERVICE, "/opt/penstock/bin/penstock", *words)


@contextmanager
def running_machine(files: Mapping[str, str], package: Path, socket: Path) -> Iterator[Machine]:
    """Boot with these files (path in the machine to text); `package` becomes /opt/penstock.

    `socket`, the folder of a Postgres' socket, becomes /srv/postgres.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-machine-"))
    group = _make_cgroup(folder.name)
    given = folder / "given"
    for path, text in files.items():
        (given / path).parent.mkdir(parents=True, exist_ok=True)
        (given / path).write_text(text)
    place = folder / "place"
    place.mkdir()
    enter = f"echo $$ > {group}/cgroup.procs; exec unshare --pid --mount --net --uts --ipc --cgroup"
    outer = f'{enter} --fork --kill-child bash -c "$0" "$@"'
    arguments = [_BOOT, "boot", str(place), str(given), str(package), str(socket)]
    with (folder / "log").open("wb") as log:
        parent = subprocess.Popen(["bash", "-c", outer, *arguments], stdout=log, stderr=log)
    try:
        machine = Machine(_child_of(parent, folder / "log"))
        _wait_until_booted(machine, folder / "log")
        yield machine
    finally:
        parent.kill()
        parent.wait()
        _remove_cgroup(group)
        shutil.rmtree(folder)


def _make_cgroup(name: str) -> Path:
    parent = next(Path(place) for place in _CGROUPS if (Path(place) / "cgroup.procs").exists())
    group = parent / name
    group.mkdir()
    return group


def _remove_cgroup(group: Path) -> None:
    """Remove it with those that systemd made in it, when their last process is gone."""
    deadline = time.monotonic() + _START_SECONDS
    while (group / "cgroup.procs").read_text() or "populated 1" in (
        group / "cgroup.events"
    ).read_text():
        assert time.monotonic() < deadline, "processes are left in the machine"
        time.sleep(0.05)
    for folder in sorted(group.rglob("*/"), reverse=True):
        folder.rmdir()
    group.rmdir()


def _child_of(parent: subprocess.Popen[bytes], log: Path) -> int:
    """Return the pid of the machine's first process, seen from outside."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and parent.poll() is None:
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        time.sleep(0.05)
    raise AssertionError(f"the machine did not boot: {log.read_text()}")


def _wait_until_booted(machine: Machine, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    state = ""
    while time.monotonic() < deadline:
        state = machine.run("systemctl", "is-system-running", check=False)
        if state in {"running", "degraded"}:
            return
        time.sleep(0.1)
    raise AssertionError(f"the machine did not boot ({state}): {log.read_text()}")
