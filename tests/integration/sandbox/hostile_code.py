"""Code that tries to leave its container, or to use more than it may.

Each row prints ESCAPED if it succeeds. Rows of `ESCAPES` leave the container as it was; those of
`BOMBS` use it up, and only their own container may suffer.
"""

from typing import Final

_CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    answer = libc.syscall(number, *words)
    if answer >= 0:
        print("ESCAPED", number, answer)
    return answer
"""

ESCAPES: Final = {
    "shadow": "print('ESCAPED', open('/etc/shadow').read())",
    "passwd": "print('ESCAPED', open('/etc/passwd').read())",
    "home": "import os; print('ESCAPED', os.listdir('/root'))",
    "host root": "import os; assert not {'etc', 'home', 'root', 'var', 'work'} & set(os.listdir('/')), 'ESCAPED'",
    "environment": "import os; assert not [n for n in os.environ if 'PENSTOCK' in n or 'ENTRIES' in n], 'ESCAPED'",
    "other processes": "import os; assert len([n for n in os.listdir('/proc') if n.isdigit()]) < 4, 'ESCAPED'",
    "first process": "print('ESCAPED', open('/proc/1/environ', 'rb').read())",
    "root of the first process": "import os; print('ESCAPED', os.listdir('/proc/1/root/root'))",
    "kill others": "import os; os.kill(-1, 0); print('only its own')",
    "write root": "open('/probe', 'w'); print('ESCAPED')",
    "write usr": "open('/usr/probe', 'w'); print('ESCAPED')",
    "write image": "open('/opt/python/probe', 'w'); print('ESCAPED')",
    "write kernel": "open('/opt/kernel.py', 'w'); print('ESCAPED')",
    "write dev": "open('/dev/probe', 'w'); print('ESCAPED')",
    "write proc": "open('/proc/sys/kernel/hostname', 'w').write('x'); print('ESCAPED')",
    "loopback": "import socket; socket.create_connection(('127.0.0.1', 22), 1); print('ESCAPED')",
    "internet": "import socket; socket.create_connection(('1.1.1.1', 53), 1); print('ESCAPED')",
    "datagrams": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print('ESCAPED')",
    "unix socket": "import socket; socket.socket(socket.AF_UNIX); print('ESCAPED')",
    "vsock": "import socket; socket.socket(40, socket.SOCK_STREAM); print('ESCAPED')",
    "netlink": "import socket; socket.socket(16, socket.SOCK_RAW); print('ESCAPED')",
    "packets": "import socket; socket.socket(17, socket.SOCK_RAW); print('ESCAPED')",
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1', timeout=1); print('ESCAPED')",
    "become root": "import os; os.setuid(0); print('ESCAPED')",
    "groups": "import os; os.setgroups([0]); print('ESCAPED')",
    "setuid program": "import subprocess; assert b'uid=0' not in subprocess.run(['su', '-c', 'id'], capture_output=True).stdout, 'ESCAPED'",
    "sudo": "import subprocess; subprocess.run(['unshare', '-r', 'id'], check=True); print('ESCAPED')",
    "mount": _CALL + "call(165, b'none', b'/mnt', b'tmpfs', 0, 0)",
    "umount": _CALL + "call(166, b'/mnt/data', 2)",
    "pivot_root": _CALL + "call(155, b'/', b'/mnt/data')",
    "chroot": "import os; os.chroot('/mnt/data'); print('ESCAPED')",
    "new mount api": _CALL
    + "call(428, -100, b'/', 0); call(430, b'tmpfs', 0); call(429, -1, b'', -1, b'', 4)",
    "unshare": _CALL + "call(272, 0x10000000)",
    "setns": _CALL + "import os; call(308, os.open('/proc/self/ns/net', 0), 0)",
    "clone with namespaces": _CALL + "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": _CALL + "call(435, 0, 0)",
    "ptrace": _CALL + "call(101, 16, 1, 0, 0)",
    "memory of others": _CALL + "call(310, 1, 0, 0, 0, 0, 0)",
    "bpf": _CALL + "call(321, 0, 0, 0)",
    "perf": _CALL + "call(298, 0, 0, -1, -1, 0)",
    "keyctl": _CALL + "call(250, 0, -3, 1)",
    "add_key": _CALL + "call(248, b'user', b'x', b'y', 1, -3)",
    "io_uring": _CALL + "import ctypes as c; call(425, 1, c.create_string_buffer(256))",
    "userfaultfd": _CALL + "call(323, 0)",
    "kexec": _CALL + "call(246, 0, 0, 0, 0)",
    "modules": _CALL + "call(175, 0, 0, b''); call(313, -1, b'', 0)",
    "reboot": _CALL + "call(169, 0xfee1dead, 672274793, 0, 0)",
    "swap": _CALL + "call(167, b'/mnt/data/x', 0)",
    "clock": _CALL + "call(227, 0, 0); call(164, 0, 0)",
    "open by handle": _CALL + "call(304, -1, 0, 0)",
    "fanotify": _CALL + "call(300, 0, 0)",
    "memfd": _CALL + "call(319, b'x', 0)",
    "personality": _CALL + "call(135, 0x0040000)",
    "device": "import os; os.mknod('/mnt/data/sda', 0o60666, os.makedev(8, 0)); print('ESCAPED')",
    "terminal": "import fcntl, termios; fcntl.ioctl(1, termios.TIOCSTI, b'x'); print('ESCAPED')",
    "raise limits": "import resource; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)); print('ESCAPED')",
    "control groups": "import os; print('ESCAPED', os.listdir('/sys/fs/cgroup'))",
    "kernel log": "print('ESCAPED', open('/dev/kmsg').read(1))",
    "host's memory": "open('/dev/mem', 'rb'); print('ESCAPED')",
}

BOMBS: Final = {
    "large object": "bytearray(10**10)",
    "memory in processes": "import os\nfor _ in range(20):\n    if os.fork() == 0:\n        b = bytearray(60 * 2**20)\n        import time; time.sleep(5); os._exit(0)",
    "memory in files": "import os\nfor n in range(9999):\n    open(f'/mnt/data/{n}', 'wb').write(os.urandom(2**20))",
    "temporary files": "import os\nfor n in range(9999):\n    open(f'/tmp/{n}', 'wb').write(os.urandom(2**20))",
    "many files": "for n in range(10**7):\n    open(f'/mnt/data/{n}', 'w').close()",
    "forks": "import os\nwhile True:\n    os.fork()",
    "threads": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()",
    "endless loop": "while True: pass",
    "loop that catches": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "endless output": "while True: print('x' * 10000)",
    "endless output of a child": "import subprocess; subprocess.run(['yes'])",
    "large repr": "class A:\n    def __repr__(self): return 'x' * 10**8\nA()",
    "exit": "import os; os._exit(3)",
    "signal": "import os; os.kill(os.getpid(), 9)",
    "stopped": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "recursion": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "deep answer": "import os, struct; b = b'[' * 10**6; os.write(4, struct.pack('>I', len(b)) + b)",
    "long frame": "import os, struct; os.write(4, struct.pack('>I', 2**31) + b'x')",
    "broken frame": "import os, struct; os.write(4, struct.pack('>I', 3) + b'abc')",
    "forged files": "import os, struct, json; b = json.dumps({'type': 'files', 'files': [{'path': '../../etc/passwd', 'bytes': 1, 'mtime': 1}]}).encode(); os.write(4, struct.pack('>I', len(b)) + b)",
    "closed pipes": "import os\nfor n in range(3, 20):\n    try: os.close(n)\n    except OSError: pass",
}
