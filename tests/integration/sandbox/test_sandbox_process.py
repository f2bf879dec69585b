"""How `penstock sandbox` starts, refuses to start, stops and dies."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT, eventually, free_port
from tests.integration.sandbox.host_process import TOKEN, sandbox_host, text_in, wanted
from tests.integration.sandbox.machine_leftovers import groups_below, processes_of_users

from penstock.sandbox.bubblewrap import Bubblewrap

_UID_FIRST, _UIDS = 264_000, 64


def _start(folder: Path, *options: str, **settings: object) -> str:
    """Return the error of a host that does not start."""
    variables = {f"PENSTOCK_SANDBOX_{name.upper()}": str(value) for name, value in settings.items()}
    run = subprocess.run(
        [sys.executable, "-m", "penstock", "sandbox", *options],
        env={**CHILD_ENVIRONMENT, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.returncode in (1, 2), run.stderr
    return run.stderr


def test_it_does_not_start_without_what_protects_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o644)
    assert "token_file" in _start(tmp_path, "--dev")
    assert "chmod 600" in _start(tmp_path, "--dev", token_file=token, port=free_port())
    token.chmod(0o600)
    token.write_text("short")
    assert "16 characters" in _start(tmp_path, "--dev", token_file=token, port=free_port())
    assert "must be loopback" in _start(tmp_path, "--dev", token_file=token, host="0.0.0.0")
    # Without root or bubblewrap the reason is another one; it does not start either.
    assert "cannot be held" in _start(tmp_path, token_file=token, image=tmp_path / "none")


def test_killed_it_leaves_nothing_and_starts_anew(
    driver: Bubblewrap, tmp_path: Path, worker_number: int
) -> None:
    first_uid = _UID_FIRST + worker_number * _UIDS
    users = range(first_uid, first_uid + _UIDS)
    port = free_port()
    settings = {"image": driver.image, "uid_first": first_uid, "uids": _UIDS, "warm": 1}
    with sandbox_host(tmp_path, port=port, **settings) as host:
        boot, id = host.status().boot, host.open()
        # A process of its own session, whose parent has ended.
        code = "import subprocess; subprocess.Popen(['setsid', '-f', 'sleep', '600']).wait()"
        assert text_in(host.run(id, code)) == "0"
        assert processes_of_users(users)
        host.process.kill()
        host.process.wait(10)
        eventually(lambda: not processes_of_users(users), seconds=10)
        assert groups_below(port)
    with sandbox_host(tmp_path, port=port, **{**settings, "warm": 0}) as host:
        assert host.status().boot != boot
        assert groups_below(port) == []
        missing = host.client.get(f"/containers/{id}/files")
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        host.open()
    assert groups_below(port) == []
    assert processes_of_users(users) == []


def test_a_start_that_fails_says_why_in_the_log(
    driver: Bubblewrap, tmp_path: Path, worker_number: int
) -> None:
    first_uid = 265_000 + worker_number * _UIDS
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as image:
        Path(image).chmod(0o755)
        (Path(image) / "bin").mkdir()
        python = Path(image) / "bin" / "python3"
        python.write_text("#!/bin/sh\necho no kernel here >&2\n")
        python.chmod(0o755)
        with sandbox_host(tmp_path, image=image, uid_first=first_uid, warm=1) as host:
            eventually(lambda: "no kernel here" in host.log)
            assert host.status().warm == 0
            refused = host.client.post(f"/containers/{'0' * 32}", json=wanted())
            assert (refused.status_code, refused.json()["code"]) == (503, "full")
            assert "no kernel" not in refused.text
