"""The command of docs/operating.md that shows whether a sandbox host is full or gone."""

import json
import re
import subprocess
from pathlib import Path

from tests.integration.sandbox.host_process import sandbox_host

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"


def look(port: int, token: Path) -> subprocess.CompletedProcess[str]:
    """Run the page's command against another address, with another token."""
    [command] = re.findall(r"^\$ (curl .*:8795/status .*)$", PAGE.read_text(), re.MULTILINE)
    here = command.replace("10.0.0.9:8795", f"127.0.0.1:{port}")
    assert here != command
    told = here.replace("/etc/penstock/sandbox.token", str(token))
    assert told != here
    return subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=False)


def test_the_runbook_s_command_tells_full_from_gone(tmp_path: Path) -> None:
    with sandbox_host(tmp_path, "--dev", warm=0, containers_max=1) as host:
        host.open()
        shown = json.loads(look(host.port, tmp_path / "token").stdout)
        assert (shown["containers"], shown["containers_max"], shown["warm"]) == (1, 1, 0)
        [example] = re.findall(r'^(\{"boot":.*\n.*\})$', PAGE.read_text(), re.MULTILINE)
        assert json.loads(example).keys() == shown.keys()
        other = tmp_path / "other"
        other.write_text("another-token-than-there")
        assert json.loads(look(host.port, other).stdout)["code"] == "unauthorized"
        host.process.terminate()
        assert host.process.wait(10) == 0
        gone = look(host.port, tmp_path / "token")
    assert gone.returncode == 7
    assert gone.stdout == ""
