"""The rows of `tests.chaos.sandbox`: each raises AssertionError when hostile code got its way."""

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.integration.sandbox.host_process import SandboxHost, text_in
from tests.integration.sandbox.hostile_code import BOMBS, ESCAPES, Bomb, Escape

from penstock.wire.resources.sandbox import (
    CallEnded,
    CallLine,
    ChangedFiles,
    ContainerLost,
    Output,
)

_ANSWER_SECONDS = 2.0
_CROWD = 64
# Descriptor 4 is the kernel's own way to the host.
_FORGE = """
import os, struct, sys
def forge(body, length=None):
    os.write(4, struct.pack('>I', len(body) if length is None else length) + body)
"""
_CROWD_CODE = (
    "held = []\nwhile True:\n    try: held.append(b'x' * 2**20)\n    except MemoryError: held = []",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "while True: pass",
    "import os\nwhile True:\n    with open('f', 'wb') as f: f.write(os.urandom(2**20))",
)


class HostileRun:
    """A host with a container that every row must leave alone, and one for all escapes."""

    def __init__(self, host: SandboxHost) -> None:
        self.host = host
        self.neighbour = host.open()
        self.host.run(self.neighbour, "open('secret', 'w').write('s'); state = 42")
        self.shared = host.open()

    def close(self) -> None:
        for id in (self.neighbour, self.shared):
            self.host.client.delete(f"/containers/{id}")

    def check_neighbour(self) -> None:
        began = time.monotonic()
        assert text_in(self.host.run(self.neighbour, "state")) == "42"
        took = time.monotonic() - began
        assert took < _ANSWER_SECONDS, f"the neighbour took {took:.1f} s"

    def lose(self, code: str, seconds: float = 20.0) -> str:
        """Run code in a container of its own that must not survive it; return why it was lost."""
        id = self.host.open()
        last = self.host.run(id, code, seconds=seconds)[-1]
        assert isinstance(last, ContainerLost), last
        assert self.host.client.get(f"/containers/{id}/files").json()["code"] == "lost"
        self.check_neighbour()
        return last.reason


Row = Callable[[HostileRun], None]


def rows() -> dict[str, Row]:
    """Return all rows by name."""
    return {
        **{f"escape: {name}": functools.partial(_escape, row) for name, row in ESCAPES.items()},
        **{f"bomb: {name}": functools.partial(_bomb, row) for name, row in BOMBS.items()},
        "length that lies": _lying_length,
        "length of 4 GiB": _huge_length,
        "a million tiny frames": _tiny_frames,
        "answer for another call": _other_call,
        "kill the first process": _first_process,
        "names that leave the folder": _leaving_names,
        "forged names": _forged_names,
        "links": _links,
        "files of another container": _other_files,
        "64 bombs at once": _crowd,
    }


def _printed(lines: list[CallLine]) -> str:
    return "".join(line.text for line in lines if isinstance(line, Output))


def _escape(row: Escape, run: HostileRun) -> None:
    lines = run.host.run(run.shared, row.code, seconds=20)
    assert "ESCAPED" not in _printed(lines), _printed(lines)
    assert text_in(lines).strip().endswith(row.refusal), text_in(lines)


def _bomb(row: Bomb, run: HostileRun) -> None:
    if not row.is_kept:
        reason = run.lose(row.code, row.seconds)
        assert reason.startswith(row.outcome), reason
        return
    id = run.host.open()
    run.host.run(id, "state = 6")
    text = text_in(run.host.run(id, row.code, seconds=row.seconds)).strip()
    assert text.endswith(row.outcome), text[-500:]
    assert text_in(run.host.run(id, "state")) == "6"
    run.check_neighbour()
    run.host.client.delete(f"/containers/{id}")


def _lying_length(run: HostileRun) -> None:
    run.lose(_FORGE + "forge(b'{\"type\": \"done\"}', 60)\nprint('x' * 100)")


def _huge_length(run: HostileRun) -> None:
    assert "too much" in run.lose(_FORGE + "forge(b'', 2**32 - 1)")


def _tiny_frames(run: HostileRun) -> None:
    frame = '{"type": "out", "stream": "stdout", "text": ""}'
    reason = run.lose(f"{_FORGE}\nfor _ in range(10**6): forge(b'{frame}')")
    assert "too much" in reason, reason


def _other_call(run: HostileRun) -> None:
    """An end that is told twice ends the container's own next call early, and no other's."""
    id = run.host.open()
    run.host.run(id, _FORGE + 'forge(b\'{"type": "done"}\')')
    run.check_neighbour()
    last = run.host.client.post(
        f"/containers/{id}/exec", json={"call_id": "next", "code": "print('x')"}
    )
    assert last.status_code in (200, 404), last.text
    run.check_neighbour()
    run.host.client.delete(f"/containers/{id}")


def _first_process(run: HostileRun) -> None:
    id = run.host.open()
    last = run.host.run(id, "import os, time; os.kill(1, 9); time.sleep(0.5)")[-1]
    assert isinstance(last, CallEnded | ContainerLost), last
    run.check_neighbour()
    run.host.client.delete(f"/containers/{id}")


def _leaving_names(run: HostileRun) -> None:
    files = f"/containers/{run.shared}/files"
    for name in ("..%2F..%2Fx", "%2E%2E/%2E%2E/x", "%2Fetc%2Fpasswd", "a%00b", "x%0A", "%FF"):
        for answer in (
            run.host.client.get(f"{files}/{name}"),
            run.host.client.put(f"{files}/{name}", content=b"x"),
        ):
            assert answer.status_code in (400, 404), (name, answer.status_code)


def _forged_names(run: HostileRun) -> None:
    id = run.host.open()
    code = """
import sys
paths = ('../../x', '/etc/x', 'a/../../b', 'n\\n', 'ok')
names = [{'path': path, 'bytes': 1, 'mtime': 1} for path in paths]
sys.modules['__main__'].Kernel.do_list = lambda self: self.events.send('files', files=names)
"""
    lines = run.host.run(id, code)
    told = [file.path for line in lines if isinstance(line, ChangedFiles) for file in line.files]
    assert told == ["ok"], lines
    listed = run.host.client.get(f"/containers/{id}/files").json()["files"]
    assert [each["path"] for each in listed] == ["ok"], listed
    run.host.client.delete(f"/containers/{id}")


def _links(run: HostileRun) -> None:
    id = run.host.open()
    run.host.run(id, "import os; os.symlink('/etc/shadow', 'a'); os.symlink('/proc/1/root', 'b')")
    files = f"/containers/{id}/files"
    assert run.host.client.get(files).json()["files"] == []
    for name in ("a", "b/etc/shadow", "b/root/x"):
        answer = run.host.client.get(f"{files}/{name}")
        assert answer.status_code in (404, 409), (name, answer.text)
        assert b"root:" not in answer.content
    run.host.client.delete(f"/containers/{id}")


def _other_files(run: HostileRun) -> None:
    places = ("/mnt/data/secret", "/proc/*/root/mnt/data/secret")
    code = f"import glob; print([found for place in {places} for found in glob.glob(place)])"
    assert text_in(run.host.run(run.shared, code)).strip() == "[]"
    assert run.host.client.get(f"/containers/{run.shared}/files/secret").status_code == 404


def _crowd(run: HostileRun) -> None:
    """All bombs at once, for ten seconds; the neighbour is the 65th."""
    with ThreadPoolExecutor(_CROWD) as threads:
        ids = list(threads.map(lambda _: run.host.open(), range(_CROWD)))
        bombs = [
            threads.submit(run.host.run, id, _CROWD_CODE[number % len(_CROWD_CODE)], seconds=10.0)
            for number, id in enumerate(ids)
        ]
        time.sleep(2)
        try:
            for _ in range(5):
                run.check_neighbour()
                time.sleep(1)
        finally:
            ended = [bomb.result()[-1] for bomb in bombs]
            for id in ids:
                run.host.client.delete(f"/containers/{id}")
    assert all(isinstance(line, CallEnded | ContainerLost) for line in ended), ended
