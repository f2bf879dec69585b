"""MCP servers of the real SDK, each a process of its own: clients/python/mcp_server.py."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from tests.acceptance.client_run import CLIENTS, ROOT, clients_folder


@contextmanager
def sdk_server(era: str, bodies: str) -> Iterator[str]:
    """Run a server until the block ends; its address has no path yet."""
    program = clients_folder("python", ROOT / "requirements" / "clients.txt") / "bin" / "python"
    process = subprocess.Popen(
        [str(program), str(CLIENTS / "python" / "mcp_server.py"), era, bodies],
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def counts(url: str) -> dict[str, int]:
    """How many requests the server got, by their methods."""
    with urllib.request.urlopen(f"{url}/counts", timeout=10) as answer:
        return msgspec.convert(json.load(answer), dict[str, int])
