"""A cell whose models run code: a real `penstock sandbox` process, and an MCP server of the SDK.

Containers are held by bubblewrap, with the whole image, where this machine can; elsewhere the host
runs with `--dev`. `driver` says which it was, and so does each container.
"""

import contextlib
import fcntl
import hashlib
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.acceptance.client_cell import (
    GPT_OSS,
    KIMI,
    SCRIPTED_CONTEXT_TOKENS,
    ClientCell,
    running_cell,
)
from tests.acceptance.mcp_servers import counts, sdk_server
from tests.integration.sandbox.host_process import SandboxHost, sandbox_host

from penstock.config import cpu_engine_folder, toml
from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import PACKAGES, make_image

MCP_LABEL = "sums"
_OPEN_TO_ALL = Path("/var/cache/penstock")
_UID_FIRST, _UIDS = 270_000, 64


class CodeCell(msgspec.Struct, frozen=True):
    """Made by `running_code_cell`."""

    cell: ClientCell
    host: SandboxHost
    mcp_url: str

    @property
    def driver(self) -> str:
        """`bubblewrap`, or `process` where that cannot be held."""
        return self.host.status().driver

    def tools_called(self) -> int:
        """How many calls of tools the MCP server got."""
        return counts(self.mcp_url).get("tools/call", 0)


@contextlib.contextmanager
def running_code_cell(folder: Path, worker_number: int) -> Iterator[CodeCell]:
    """Start the sandbox host, the MCP server and `penstock up` with both."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(sdk_server("stateless", "sse"))
        host = stack.enter_context(_running_host(folder, worker_number))
        values = {
            "sandbox_hosts": [host.url],
            "sandbox_token_file": str(folder / "token"),
            "allow_shared_kernel": True,
        }
        lines = ["[tools]", *(f"{name} = {toml(value)}" for name, value in values.items())]
        offered = {"label": MCP_LABEL, "url": f"{server}/mcp"}
        lines += ["[[tools.mcp_servers]]", *(f"{k} = {toml(v)}" for k, v in offered.items())]
        (folder / "penstock.toml").write_text("\n".join([*lines, ""]))
        contexts = {model: SCRIPTED_CONTEXT_TOKENS[model] for model in (KIMI, GPT_OSS)}
        yield CodeCell(stack.enter_context(running_cell(folder, contexts)), host, server)


def sandbox_image() -> Path:
    """The folder with the image's Python and its packages, made once for these pins."""
    pins = f"{platform.python_version()} {PACKAGES}"
    digest = hashlib.sha256(pins.encode()).hexdigest()[:16]
    folder = _images() / f"sandbox-image-{digest}"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # What is there under its name is whole.
            begun = Path(tempfile.mkdtemp(prefix="sandbox-image-", dir=folder.parent))
            try:
                make_image(begun / "image")
                (begun / "image").rename(folder)
            finally:
                shutil.rmtree(begun)
    return folder


def _images() -> Path:
    """The folder of images: the cache, or where the users of containers can enter."""
    cache = cpu_engine_folder().parent
    cache.mkdir(parents=True, exist_ok=True)
    is_shut = any(not each.stat().st_mode & 0o001 for each in (cache, *cache.parents))
    folder = _OPEN_TO_ALL if is_shut else cache
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _running_host(folder: Path, worker_number: int) -> Iterator[SandboxHost]:
    settings: dict[str, object] = {
        "memory_tiers_mb": [1024],
        "data_bytes": 64 * 2**20,
        "uid_first": _UID_FIRST + worker_number * _UIDS,
        "uids": _UIDS,
        "warm": 1,
    }
    if _problem():
        with sandbox_host(folder, "--dev", **settings) as host:
            yield host
    else:
        with sandbox_host(folder, image=sandbox_image(), **settings) as host:
            yield host


def _problem() -> str:
    """Return why containers cannot be held here, before an image is made for them."""
    return Bubblewrap(Path("/"), ControlGroups()).host_problem()
