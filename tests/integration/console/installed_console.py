"""Uses the console of an installed wheel, by Python's own library alone.

    python installed_console.py VENV FOLDER

It starts `penstock up --imitate` out of VENV, with a PATH on which no node is, signs in, and gets
every page with all that it needs. It is run where there is no network but the loopback.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

_READY_SECONDS = 60.0
_NODE = re.compile(r"(?:node|nodejs|npm|npx|yarn|pnpm|corepack|bun|deno)\b.*")
_NEEDED = re.compile(r'<(?:script|link|img|source|iframe)[^>]*(?:src|href)="([^"]+)"')
_PAGES = re.compile(r'<a[^>]*href="(/console/[a-z]*)"')
# An address for documentation: nothing answers there, and no route leads there.
_ELSEWHERE = ("192.0.2.1", 80)


def path_without_node(folder: Path) -> str:
    """Return a PATH with all programs of this machine but those that run JavaScript."""
    for place in ("/usr/sbin", "/usr/bin", "/bin", "/usr/local/bin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if not _NODE.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("node", path=str(folder)) is None
    assert shutil.which("sh", path=str(folder)) is not None
    return str(folder)


def has_network() -> bool:
    try:
        socket.create_connection(_ELSEWHERE, timeout=0.5).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


def use_console(url: str, secret: str) -> int:
    """Sign in and get every page, and every file that a page needs; return how many files."""
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({})
    )
    form = urllib.parse.urlencode({"key": secret}).encode()
    door = urllib.request.Request(f"{url}/console/sign-in", form, {"Origin": url})
    first = opener.open(door, timeout=20).read().decode()
    pages = {"/console/", *_PAGES.findall(first)}
    assert len(pages) >= 9, pages
    needed = set()
    for page in sorted(pages):
        shown = opener.open(url + page, timeout=20).read().decode()
        assert "<h1>" in shown, page
        needed.update(_NEEDED.findall(shown))
    for file in needed:
        assert file.startswith("/console/static/"), file
        assert opener.open(url + file, timeout=20).read()
    return len(needed)


def main(venv: Path, folder: Path) -> None:
    programs = folder / "programs"
    programs.mkdir()
    environment = {
        "HOME": str(folder),
        "PATH": f"{venv / 'bin'}:{path_without_node(programs)}",
        "LANG": "C.UTF-8",
    }

    def penstock(*arguments: str) -> str:
        command = [str(venv / "bin" / "penstock"), *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        return done.stdout.decode()

    up = subprocess.Popen(
        [str(venv / "bin" / "penstock"), "up", "--imitate", "--port", "0", "--metrics-port", "0"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert up.stdout is not None
        deadline = time.monotonic() + _READY_SECONDS
        for line in up.stdout:
            assert time.monotonic() < deadline, "it does not become ready"
            if line.startswith("curl "):
                break
        url = json.loads(penstock("status", "--json"))["operator_url"]
        secret = json.loads(penstock("key", "create", "--operator", "--json"))["secret"]
        files = use_console(url, secret)
    finally:
        up.terminate()
        up.wait(_READY_SECONDS)
    print(json.dumps({"files": files, "has_network": has_network(), "uid": os.getuid()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
