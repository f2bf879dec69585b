"""Code that tries to leave its container, or to use more than it may.

Each row has the code and what it must print last, so that a row which fails by a mistake of its own
proves nothing and is seen. Rows of `ESCAPES` leave the container as it was; rows of `BOMBS` use it
up, and say whether the container keeps its state.
"""

from typing import Final, NamedTuple


class Escape(NamedTuple):
    """`refusal` is what the code prints last; `on_host` exists outside, and only there."""

    code: str
    refusal: str
    on_host: str = ""


class Bomb(NamedTuple):
    """`outcome` is what is printed last if the state is kept, else why the container is lost."""

    code: str
    outcome: str
    is_kept: bool = False
    seconds: float = 20.0


_NO_FILE = "[Errno 2] No such file or directory: "
_READ_ONLY = "OSError: [Errno 30] Read-only file system: "
_NO_CALL = "OSError: [Errno 38] Function not implemented"
_CALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    answer = libc.syscall(number, *words)
    print("ESCAPED" if answer >= 0 else errno.errorcode[ctypes.get_errno()])
"""


def _call(words: str, refusal: str = "ENOSYS") -> Escape:
    """A system call by its number on x86-64."""
    return Escape(f"{_CALL}call({words});", refusal)


def _socket(words: str) -> Escape:
    return Escape(f"import socket; socket.{words}; print('ESCAPED')", _NO_CALL)


def _open(path: str, mode: str, refusal: str, on_host: str = "") -> Escape:
    code = f"file = open({path!r}, {mode!r}, buffering=0); print('ESCAPED')"
    return Escape(code, f"{refusal}{path!r}", on_host)


_FILES: Final = {
    "shadow": _open("/etc/shadow", "rb", _NO_FILE, "/etc/shadow"),
    "passwd": _open("/etc/passwd", "rb", _NO_FILE, "/etc/passwd"),
    "home": Escape(
        "import os; os.listdir('/root'); print('ESCAPED')", f"{_NO_FILE}'/root'", "/root"
    ),
    "root of the first process": Escape(
        "import os; os.listdir('/proc/1/root/root'); print('ESCAPED')",
        f"{_NO_FILE}'/proc/1/root/root'",
        "/root",
    ),
    "folders": Escape(
        "import os; print(*sorted(os.listdir('/')))",
        "bin dev lib lib64 mnt opt proc sbin tmp usr",
        "/etc",
    ),
    "control groups": Escape(
        "import os; os.listdir('/sys/fs/cgroup'); print('ESCAPED')",
        f"{_NO_FILE}'/sys/fs/cgroup'",
        "/sys/fs/cgroup",
    ),
    "write root": _open("/probe", "wb", _READ_ONLY),
    "write usr": _open("/usr/probe", "wb", _READ_ONLY),
    "write image": _open("/opt/python/probe", "wb", _READ_ONLY),
    "write kernel": _open("/opt/kernel.py", "wb", _READ_ONLY),
    "write dev": _open("/dev/probe", "wb", _READ_ONLY),
    "write proc": _open("/proc/sys/kernel/hostname", "wb", "[Errno 13] Permission denied: "),
    "host's end of the pipe of requests": _open("/proc/self/fd/3", "wb", "Permission denied: "),
    "host's end of the pipe of events": _open("/proc/self/fd/4", "rb", "Permission denied: "),
    # Linux counts terminals of all containers together.
    "terminals": _open("/dev/ptmx", "rb", _NO_FILE, "/dev/ptmx"),
    # A lock would be seen, and could be waited for, outside.
    "lock of a file of the host": Escape(
        "import fcntl; fcntl.flock(open('/usr/bin/env'), fcntl.LOCK_EX); print('ESCAPED')", _NO_CALL
    ),
    "device": Escape(
        "import os; os.mknod('sda', 0o60666, os.makedev(8, 0)); print('ESCAPED')", _NO_CALL
    ),
    "descriptors": Escape(
        """
import os
places = {os.readlink(f'/proc/{pid}/fd/{name}').split(':')[0] for pid in (1, 2)
          for name in os.listdir(f'/proc/{pid}/fd') if os.path.lexists(f'/proc/{pid}/fd/{name}')}
print(*sorted(places))
""",
        "/dev/null anon_inode pipe",
    ),
}
_PROCESSES: Final = {
    "environment": Escape(
        "import os; print(*sorted(name for name in os.environ if name not in ('HOME', 'LANG')))",
        "LD_LIBRARY_PATH MPLBACKEND MPLCONFIGDIR OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH PWD",
    ),
    "environment of the first process": Escape(
        "print(open('/proc/1/environ').read())", "PATH=/bin:/usr/bin\0"
    ),
    # Code can write into the first process, which must therefore be held as code is.
    "rights of every process": Escape(
        """
for pid in (1, 2):
    fields = dict(line.split(':\t') for line in open(f'/proc/{pid}/status').read().splitlines())
    print(*(int(fields[name], 16) for name in ('CapPrm', 'CapBnd', 'NoNewPrivs', 'Seccomp')))
""",
        "0 0 1 2\n0 0 1 2",
    ),
    "other processes": Escape(
        "import os; print(*sorted(name for name in os.listdir('/proc') if name.isdigit()))", "1 2"
    ),
    "kill others": Escape(
        "import os; os.kill(-1, 0); print('ESCAPED')",
        "ProcessLookupError: [Errno 3] No such process",
    ),
    "not killed by memory": Escape(
        "file = open('/proc/self/oom_score_adj', 'wb', buffering=0); file.write(b'-1000')",
        "PermissionError: [Errno 13] Permission denied",
    ),
    "become root": Escape("import os; os.setuid(0); print('ESCAPED')", _NO_CALL),
    "groups": Escape("import os; os.setgroups([0]); print('ESCAPED')", _NO_CALL),
    "mounts obey no setuid bit": Escape(
        "print({'nosuid' in line for line in open('/proc/self/mountinfo')})", "{True}"
    ),
    "user namespace": Escape(
        "import os, subprocess; subprocess.run(['unshare', '-r', 'id'], stderr=1)",
        "unshare failed: Function not implemented\n"
        "CompletedProcess(args=['unshare', '-r', 'id'], returncode=1)",
    ),
    "chroot": Escape(
        "import os; os.chroot('/mnt/data'); print('ESCAPED')", f"{_NO_CALL}: '/mnt/data'"
    ),
    "raise memory": Escape(
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)); print('ESCAPED')",
        "ValueError: not allowed to raise maximum limit",
    ),
    # At 0 the kernel would call the host's handler of crashes, at 1 it does not.
    "lower core": Escape(
        """
print([line.split()[4:6] for line in open('/proc/self/limits') if 'core' in line])
import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 1)); print('ESCAPED')
""",
        "ValueError: not allowed to raise maximum limit",
    ),
    # FIOASYNC, which a pipe would take.
    "ioctl that is not listed": Escape(
        "import fcntl; fcntl.ioctl(1, 0x5452, b'0000'); print('ESCAPED')",
        "OSError: [Errno 25] Inappropriate ioctl for device",
    ),
}
_NETWORK: Final = {
    "loopback": _socket("create_connection(('127.0.0.1', 22), 1)"),
    "internet": _socket("create_connection(('1.1.1.1', 53), 1)"),
    "datagrams": _socket("socket(socket.AF_INET, socket.SOCK_DGRAM)"),
    "unix socket": _socket("socket(socket.AF_UNIX)"),
    "vsock": _socket("socket(40, socket.SOCK_STREAM)"),
    "netlink": _socket("socket(16, socket.SOCK_RAW)"),
    "packets": _socket("socket(17, socket.SOCK_RAW)"),
    "options of a socket": _socket("socketpair()[0].setsockopt(1, 26, b'x' * 16)"),
    "descriptors by a socket": _socket("send_fds(socket.socketpair()[0], [b'x'], [1])"),
    # Without the filter, too, there would be no way out.
    "interfaces": Escape(
        "print(*(line.split()[0] for line in open('/proc/net/dev').readlines()[2:]))", "lo:"
    ),
}
_CALLS: Final = {
    "mount": _call("165, b'none', b'/mnt', b'tmpfs', 0, 0"),
    "umount": _call("166, b'/mnt/data', 2"),
    "pivot_root": _call("155, b'/', b'/mnt/data'"),
    "open_tree": _call("428, -100, b'/', 0"),
    "fsopen": _call("430, b'tmpfs', 0"),
    "move_mount": _call("429, -1, b'', -1, b'', 4"),
    "unshare": _call("272, 0x10000000"),
    "setns": _call("308, os.open('/proc/self/ns/net', 0), 0"),
    "clone with a user namespace": _call("56, 0x10000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone3": _call("435, 0, 0"),
    "ptrace": _call("101, 16, 1, 0, 0"),
    "memory of others": _call("310, 1, 0, 0, 0, 0, 0"),
    "bpf": _call("321, 0, 0, 0"),
    "perf": _call("298, 0, 0, -1, -1, 0"),
    "keyctl": _call("250, 0, -3, 1"),
    "add_key": _call("248, b'user', b'x', b'y', 1, -3"),
    "io_uring": _call("425, 1, ctypes.create_string_buffer(256)"),
    "userfaultfd": _call("323, 0"),
    "kexec": _call("246, 0, 0, 0, 0"),
    "init_module": _call("175, 0, 0, b''"),
    "finit_module": _call("313, -1, b'', 0"),
    "reboot": _call("169, 0xfee1dead, 672274793, 0, 0"),
    "swap": _call("167, b'/mnt/data/x', 0"),
    "clock": _call("227, 0, 0"),
    "time of day": _call("164, 0, 0"),
    "open by handle": _call("304, -1, 0, 0"),
    "fanotify": _call("300, 0, 0"),
    "memfd": _call("319, b'x', 0"),
    "personality": _call("135, 0x0040000"),
    "seccomp": _call("317, 1, 0, 0"),
    "a filter by prctl": _call("157, 22, 2, 0, 0, 0", "EINVAL"),
    "dumpable by prctl": _call("157, 4, 0, 0, 0, 0", "EINVAL"),
}
ESCAPES: Final = {**_FILES, **_PROCESSES, **_NETWORK, **_CALLS}

# Descriptor 4 is the kernel's own way to the host.
_FORGE = """
import json, os, struct
def forge(body, length=None):
    os.write(4, struct.pack('>I', len(body) if length is None else length) + body)
"""
_OTHER_EVENT = "its kernel reported what nobody had asked for"

BOMBS: Final = {
    "large object": Bomb("bytearray(10**10)", "MemoryError", is_kept=True),
    "memory in processes": Bomb(
        """
import os, signal
for _ in range(8):
    if os.fork() == 0:
        held = b'x' * (60 * 2**20)
        signal.pause()
print('killed by signal', os.WTERMSIG(os.wait()[1]))
""",
        "killed by signal 9",
        is_kept=True,
    ),
    "files": Bomb(
        """
import os
for n in range(9999):
    open(f'/mnt/data/{n}', 'wb').write(os.urandom(2**20))
""",
        "OSError: [Errno 28] No space left on device",
        is_kept=True,
    ),
    "temporary files": Bomb(
        """
import os
for n in range(9999):
    open(f'/tmp/{n}', 'wb').write(os.urandom(2**20))
""",
        "OSError: [Errno 28] No space left on device",
        is_kept=True,
    ),
    "descriptors": Bomb(
        """
import os
held = []
try:
    while True: held += os.pipe()
except OSError as refused:
    [os.close(each) for each in held]
    print(refused)
""",
        "[Errno 24] Too many open files",
        is_kept=True,
    ),
    "forks": Bomb(
        """
import os
while True: os.fork()
""",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        is_kept=True,
    ),
    "threads": Bomb(
        """
import threading, time
while True: threading.Thread(target=time.sleep, args=(60,)).start()
""",
        "RuntimeError: can't start new thread",
        is_kept=True,
    ),
    "endless loop": Bomb("while True: x = 1", "KeyboardInterrupt", is_kept=True, seconds=1.0),
    "large text": Bomb("'x' * 10**7", "x" * 1000, is_kept=True),
    "crash": Bomb("import ctypes; ctypes.string_at(0)", "its kernel has ended"),
    "exit": Bomb("import os; os._exit(3)", "its kernel has ended"),
    "signal": Bomb("import os; os.kill(os.getpid(), 9)", "its kernel has ended"),
    "stopped": Bomb(
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "the call took longer than 1 s",
        seconds=1.0,
    ),
    "loop that catches": Bomb(
        """
import time
while True:
    try: time.sleep(60)
    except BaseException: pass
""",
        "the call took longer than 1 s",
        seconds=1.0,
    ),
    "endless output": Bomb("while True: print('x' * 10000)", "the call printed too much"),
    "endless output of a child": Bomb(
        "import subprocess; subprocess.run(['yes'])", "the call printed too much"
    ),
    "deep event": Bomb(
        _FORGE + 'forge(b\'{"type": "out", "x":\' + b\'[\' * 10**6)',
        "its kernel reported a malformed event: ",
    ),
    "long event": Bomb(_FORGE + "forge(b'x', 2**31)", "its kernel reported too much at once"),
    "broken event": Bomb(_FORGE + "forge(b'abc')", "its kernel reported a malformed event: "),
    "half an event": Bomb(
        _FORGE + "forge(b'', 1000)", "the call took longer than 1 s", seconds=1.0
    ),
    "empty events": Bomb(
        _FORGE + 'while True: forge(b\'{"type":"image","data":"","more":true}\')',
        "the call printed too much",
    ),
    "event of files": Bomb(_FORGE + 'forge(b\'{"type":"files","files":[]}\')', _OTHER_EVENT),
    "event of a start": Bomb(_FORGE + 'forge(b\'{"type":"ready"}\')', _OTHER_EVENT),
    "closed pipes": Bomb("import os; os.closerange(3, 20)", "its kernel has ended"),
    # Both take memory of the host's kernel, which counts as the container's own.
    "memory in sockets": Bomb(
        """
import itertools, socket
held = [socket.socketpair() for _ in range(500)]
for end in itertools.chain(*held):
    end.setblocking(False)
    try:
        while True: end.send(b'x' * 65536)
    except BlockingIOError: pass
print('all of it')
""",
        "its kernel has ended",
    ),
    "many files": Bomb(
        "for n in range(10**7): open(f'/mnt/data/{n}', 'w').close()",
        "its kernel has ended",
    ),
}
