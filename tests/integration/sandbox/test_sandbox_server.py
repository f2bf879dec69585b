"""A sandbox host over HTTP: with bubblewrap where that works, and without isolation."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.cells.gateway_process import eventually
from tests.integration.sandbox.host_process import (
    SandboxHost,
    call,
    lines_of,
    sandbox_host,
    text_in,
    wanted,
)

from penstock.clock import new_id
from penstock.wire.resources.sandbox import CallEnded, ChangedFiles, ContainerLost, Output

_UID_FIRST = 263_000


@pytest.fixture(scope="module", params=["process", "bubblewrap"])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_number: int
) -> Iterator[SandboxHost]:
    """One process for all tests of a driver: none may harm it."""
    folder = tmp_path_factory.mktemp("sandbox")
    if request.param == "process":
        with sandbox_host(folder, "--dev", warm=1, file_bytes_max=2**20) as host:
            yield host
        return
    settings = {
        "image": request.getfixturevalue("driver").image,
        "warm": 1,
        "uid_first": _UID_FIRST + 1000 * worker_number,
        "file_bytes_max": 2**20,
    }
    with sandbox_host(folder, **settings) as host:
        yield host


def test_status_says_what_holds_containers(host: SandboxHost) -> None:
    status = host.status()
    assert (status.driver, status.isolation, status.is_dev) in (
        ("process", "none", True),
        ("bubblewrap", "namespaces", False),
    )
    answer = host.client.get("/status")
    assert ("x-penstock-sandbox" in answer.headers) is status.is_dev
    assert status.is_dev is ("nothing is isolated" in host.log)
    assert status.memory_tiers_mb == [128, 256]


def test_without_the_token_nothing_is_told(host: SandboxHost) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": ""}):
        for path in ("/status", "/nothing", f"/containers/{'0' * 32}/files"):
            answer = httpx.get(f"{host.url}{path}", headers=headers, trust_env=False)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
            assert "x-penstock-sandbox" not in answer.headers


def test_state_is_kept_and_the_first_container_was_warm(host: SandboxHost) -> None:
    eventually(lambda: host.status().warm == 1)
    id, before = new_id().replace("-", ""), host.status()
    first = host.client.post(f"/containers/{id}", json=wanted())
    assert first.json() == {"boot": before.boot, "was_warm": True}
    assert host.client.post(f"/containers/{id}", json=wanted()).json() == first.json()
    lines = host.run(id, "x = 41\nprint('hello')")
    assert lines[0] == Output("stdout", "hello\n")
    assert lines[1] == ChangedFiles([])
    assert isinstance(lines[2], CallEnded)
    assert text_in(host.run(id, "x + 1")) == "42"
    assert host.status().containers == before.containers + 1
    assert host.client.delete(f"/containers/{id}").status_code == 200
    assert host.client.delete(f"/containers/{id}").status_code == 404
    assert host.status().containers == before.containers


def test_lines_come_as_they_are_printed(host: SandboxHost) -> None:
    id = host.open()
    code = "import time\nprint('first', flush=True)\ntime.sleep(1.5)\nprint('second')"
    began = time.monotonic()
    with host.client.stream("POST", f"/containers/{id}/exec", json=call(code)) as answer:
        lines = answer.iter_lines()
        assert "first" in next(lines)
        assert time.monotonic() - began < 1.2
        assert "second" in next(lines)
        assert len(list(lines)) == 2
    host.client.delete(f"/containers/{id}")


def test_files_go_in_and_out_and_changes_are_told(host: SandboxHost) -> None:
    id = host.open()
    files = f"/containers/{id}/files"
    data = bytes(range(256)) * 100
    assert host.client.put(f"{files}/a%20b/in.bin", content=data).status_code == 200
    code = "b = open('a b/in.bin', 'rb').read(); n = open('out.bin', 'wb').write(b[::-1])"
    lines = host.run(id, code)
    [changed] = [line for line in lines if isinstance(line, ChangedFiles)]
    assert [(entry.path, entry.bytes) for entry in changed.files] == [("out.bin", len(data))]
    assert host.client.get(f"{files}/out.bin").content == data[::-1]
    listed = {each["path"] for each in host.client.get(files).json()["files"]}
    assert listed == {"a b/in.bin", "out.bin"}
    missing = host.client.get(f"{files}/missing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    for path in ("..%2Fx", "%2Fetc%2Fpasswd", "%FF", "a%0Ab"):
        assert host.client.get(f"{files}/{path}").status_code == 400, path
    assert host.client.put(f"{files}/big", content=b"x" * (2**20 + 1)).status_code == 413
    assert host.client.put(f"{files}/good", content=b"x" * 2**20).status_code == 200
    host.client.delete(f"/containers/{id}")


def test_what_libraries_keep_at_home_is_no_file_of_the_container(host: SandboxHost) -> None:
    id = host.open()
    code = "import pathlib; (pathlib.Path.home() / 'cache.json').write_text('{}')"
    assert not [
        line for line in host.run(id, code) if isinstance(line, ChangedFiles) and line.files
    ]


def test_a_call_is_run_once_and_its_lines_are_given_again(host: SandboxHost) -> None:
    id = host.open()
    path, asked = f"/containers/{id}/exec", call("n = globals().get('n', 0) + 1; n", call_id="c")
    first = host.client.post(path, json=asked)
    assert host.client.post(path, json=asked).content == first.content
    assert text_in(host.run(id, "n")) == "1"
    for _ in range(64):
        host.run(id, "1")
    host.client.post(path, json=asked)
    assert text_in(host.run(id, "n")) == "2", "the 65th call before is forgotten"
    host.client.delete(f"/containers/{id}")


def test_a_call_goes_on_without_its_gateway_and_can_be_joined(host: SandboxHost) -> None:
    id = host.open()
    path = f"/containers/{id}/exec"
    asked = call("import time\nprint('begun', flush=True)\ntime.sleep(1)\nprint('done')")
    with host.client.stream("POST", path, json=asked) as left:
        assert b"begun" in next(left.iter_raw())
    busy = host.client.post(path, json=call("1"))
    assert (busy.status_code, busy.json()["code"]) == (409, "busy")
    assert host.client.get(f"/containers/{id}/files").json()["code"] == "busy"
    assert text_in(lines_of(host.client.post(path, json=asked).content)) == "begun\ndone\n"
    host.client.delete(f"/containers/{id}")


def test_an_interrupted_call_keeps_the_state(host: SandboxHost) -> None:
    id = host.open()
    host.run(id, "x = 5")
    texts = []
    running = threading.Thread(
        target=lambda: texts.append(text_in(host.run(id, "import time; time.sleep(60)")))
    )
    running.start()
    # Not by a call of its own, which might come first.
    eventually(lambda: host.client.get(f"/containers/{id}/files").status_code == 409)
    assert host.client.post(f"/containers/{id}/exec", json=call("1")).status_code == 409
    time.sleep(0.2)
    assert host.client.post(f"/containers/{id}/interrupt").status_code == 200
    running.join(10)
    assert "KeyboardInterrupt" in texts[0]
    assert text_in(host.run(id, "x")) == "5"
    host.client.delete(f"/containers/{id}")


def test_a_lost_container_stays_lost(host: SandboxHost) -> None:
    id = host.open()
    lines = host.run(id, "import os; os._exit(3)")
    assert lines == [ContainerLost("its kernel has ended")]
    for answer in (
        host.client.post(f"/containers/{id}/exec", json=call("1")),
        host.client.post(f"/containers/{id}", json=wanted()),
        host.client.get(f"/containers/{id}/files"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "lost")


def test_time_ends_containers(host: SandboxHost) -> None:
    idle, old = host.open(idle_seconds=0.5), host.open(life_seconds=0.5)
    lines = host.run(old, "import time; time.sleep(30)")
    assert lines[-1] == ContainerLost("the container had lived as long as it may")
    eventually(lambda: host.client.get(f"/containers/{idle}/files").status_code == 404)
    assert "not used" in host.client.get(f"/containers/{idle}/files").json()["message"]


def test_wrong_requests_are_refused(host: SandboxHost) -> None:
    id = "0" * 32
    for path in (
        "/containers/x",
        f"/containers/{id}x",
        "/containers/..",
        f"/containers/{'A' * 32}",
    ):
        assert host.client.post(path, json=wanted()).status_code == 404, path
    for body in (b"", b"[]", b"{", b"[" * 100_000, b'{"memory_mb": 0}'):
        answer = host.client.post(f"/containers/{id}", content=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed"), body[:9]
    large = host.client.post(f"/containers/{id}", json=wanted(memory_mb=512))
    assert (large.status_code, large.json()["code"]) == (409, "refused")
    missing = host.client.post(f"/containers/{id}/exec", json=call("1"))
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_the_log_has_no_code_and_no_output(host: SandboxHost) -> None:
    id = host.open()
    host.run(id, "print('secret' * 2)")
    host.client.delete(f"/containers/{id}")
    eventually(lambda: f'"container":"{id}","reason":"a gateway ended it"' in host.log)
    assert '"outcome":"ok"' in host.log
    assert "secret" not in host.log


def test_a_host_that_is_full_says_so(tmp_path: Path) -> None:
    bounds = {"warm": 1, "containers_max": 2, "execs_at_once_max": 1}
    with sandbox_host(tmp_path, "--dev", **bounds) as host:
        first, second = host.open(), host.open(256)
        full = host.client.post(f"/containers/{'0' * 32}", json=wanted())
        assert (full.status_code, full.json()["code"]) == (503, "full")
        path = f"/containers/{first}/exec"
        with host.client.stream("POST", path, json=call("import time; time.sleep(60)")):
            full = host.client.post(f"/containers/{second}/exec", json=call("1"))
            assert (full.status_code, full.json()["code"]) == (503, "full")
        host.process.terminate()
        assert host.process.wait(10) == 0
